"""MERGE statements as tests generate them, for each way of telling a peer."""

import peerlib


def sql_statement(peer, path, columns, rows, sql):
    """Runs a statement; {target} and {source} in it are the two tables."""
    peer.frame(columns, rows).createOrReplaceTempView("statement_source")
    peer.run(sql.replace("{source}", "statement_source"), path)


def quoted(name):
    return "`" + name + "`"


def rs_statement(table, columns, rows, on, clauses):
    """Builds the statement with delta-rs's calls; its expressions stay SQL."""
    merge = table.merge(peerlib.table_from_rows(columns, rows), predicate=on, source_alias="s", target_alias="t")
    for c in clauses:
        by_source, insert = c["when"] == "NOT MATCHED BY SOURCE", c["action"] == "INSERT"
        side = "not_matched_by_source" if by_source else "not_matched" if insert else "matched"
        method = f"when_{side}_{c['action'].lower()}" + ("_all" if c["all"] else "")
        arguments = {"predicate": c["cond"] or None}
        if c["action"] != "DELETE" and not c["all"]:
            arguments["updates"] = {quoted(name): value for name, value in c["set"]}
        merge = getattr(merge, method)(**arguments)
    merge.execute()
