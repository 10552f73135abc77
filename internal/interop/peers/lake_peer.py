"""delta-rs and DuckDB as peers, in one process; commands name which."""

import glob
import importlib.util
import os

import mergepeer
import peerlib

import deltalake
import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake


def open_duck():
    """A connection with the delta extension from its package, without a download."""
    con = duckdb.connect(":memory:", config={"allow_unsigned_extensions": "true"})
    folder = importlib.util.find_spec("duckdb_extension_delta").submodule_search_locations[0]
    (extension,) = glob.glob(os.path.join(folder, "extensions", "*", "delta.duckdb_extension"))
    con.execute(f"LOAD '{extension}'")
    con.execute("SET TimeZone = 'UTC'")
    con.execute("SET threads = 2")
    return con


def as_arrow(result):
    """An Arrow table of whatever Arrow stream a peer gives."""
    return pa.table(result)


# --- delta-rs ----------------------------------------------------------------


def rs_read(path, version=None, where=None):
    sql = "SELECT * FROM t" if where is None else f"SELECT * FROM t WHERE {where}"
    table = DeltaTable(path, version=version)
    return peerlib.rows_from_table(as_arrow(QueryBuilder().register("t", table).execute(sql)))


def rs_write(path, columns, rows, mode="append", partition_by=None, properties=None):
    if mode == "create":
        DeltaTable.create(
            path,
            schema=deltalake.Schema.from_arrow(peerlib.arrow_schema(columns)),
            partition_by=partition_by or [],
            configuration=properties,
        )
    if rows:
        write_deltalake(path, peerlib.table_from_rows(columns, rows), mode="append")


def rs_merge(path, columns, rows, keys):
    source = peerlib.table_from_rows(columns, rows)
    (
        DeltaTable(path)
        .merge(source, predicate=" AND ".join(f't."{k}" = s."{k}"' for k in keys), source_alias="s", target_alias="t")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


def rs_delete(path, where):
    DeltaTable(path).delete(where)


def rs_update(path, updates, where):
    DeltaTable(path).update(updates=updates, predicate=where)


def rs_checkpoint(path):
    DeltaTable(path).create_checkpoint()


# --- DuckDB ------------------------------------------------------------------


def text(path):
    return "'" + path.replace("'", "''") + "'"


def duck_read(path, version=None, where=None):
    con = open_duck()
    try:
        source = f"delta_scan({text(path)})"
        if version is not None:
            con.execute(f"ATTACH {text(path)} AS t (TYPE delta, VERSION {version})")
            source = "t"
        sql = f"SELECT * FROM {source}"
        if where is not None:
            sql += f" WHERE {where}"
        return peerlib.rows_from_table(con.execute(sql).to_arrow_table())
    finally:
        con.close()


def duck_write(path, columns, rows):
    """DuckDB inserts into a table that exists; it makes none."""
    con = open_duck()
    try:
        con.register("source", peerlib.table_from_rows(columns, rows))
        con.execute(f"ATTACH {text(path)} AS t (TYPE delta)")
        names = ", ".join('"' + name.replace('"', '""') + '"' for name, _ in columns)
        con.execute(f"INSERT INTO t SELECT {names} FROM source")
    finally:
        con.close()


def duck_sql(sql):
    con = open_duck()
    try:
        return peerlib.rows_from_table(con.execute(sql).to_arrow_table())
    finally:
        con.close()


peerlib.serve(
    {
        "versions": lambda: {"delta-rs": deltalake.__version__, "duckdb": duckdb.__version__},
        "read": rs_read,
        "write": rs_write,
        "merge": rs_merge,
        "delete": rs_delete,
        "update": rs_update,
        "checkpoint": rs_checkpoint,
        "statement": lambda path, **arguments: mergepeer.rs_statement(DeltaTable(path), **arguments),
        "duck_read": duck_read,
        "duck_write": duck_write,
        "duck_sql": duck_sql,
    }
)
