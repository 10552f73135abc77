"""delta-rs's side of the benchmark, and the data that both sides work on.

Each command prints one JSON object. DuckDB makes the data and compares results;
delta-rs does the guarded merge of merge-semantics 3 (policy quarantine) by its
own MERGE, with the guard as the clauses' conditions.
"""

import json
import os
import random
import sys
import time

FOLDED = """
SELECT entity_id, source_version,
  CASE WHEN min(operation) <> max(operation) OR min(value) <> max(value) THEN 'conflict'
       WHEN min(operation) = 'delete' THEN 'deleted' ELSE 'active' END AS status,
  CASE WHEN min(operation) = 'upsert' AND max(operation) = 'upsert' AND min(value) = max(value) THEN min(value) END AS value
FROM (
  SELECT *, max(source_version) OVER (PARTITION BY entity_id) AS newest FROM read_parquet($file)
  WHERE trim(change_id) <> '' AND trim(entity_id) <> '' AND source_version >= 1
    AND (operation = 'upsert' AND value IS NOT NULL OR operation = 'delete' AND value IS NULL)
)
WHERE source_version = newest
GROUP BY entity_id, source_version
"""


def duck():
    import duckdb

    con = duckdb.connect()
    con.execute("SET threads = 2; SET memory_limit = '6GB'; SET preserve_insertion_order = false")
    return con


# Keys are hashes: random, the same in every run, and any of them can be named.
STATE = """
SELECT substr(md5('k' || i::VARCHAR), 1, 24) AS entity_id,
  (2 + i % 5)::BIGINT AS source_version,
  CASE WHEN i % 50 = 0 THEN 'deleted' ELSE 'active' END AS status,
  CASE WHEN i % 50 <> 0 THEN 'value ' || substr(md5('v' || i::VARCHAR), 1, 12) END AS value
FROM range({first}, {last}) AS r(i)
"""

# Of 100 changes: 70 newer versions, 10 deletes, 5 repeats of what is stored, 5
# stale, 5 conflicts with what is stored, 5 new keys. 611953 is a prime: as long as
# it does not divide the number of rows, no key comes twice and all files are met.
CHANGES = """
SELECT 'c' || n::VARCHAR AS change_id, substr(md5('k' || i::VARCHAR), 1, 24) AS entity_id,
  (2 + i % 5 + CASE WHEN n % 20 < 16 THEN 1 WHEN n % 20 = 17 THEN -1 ELSE 0 END)::BIGINT AS source_version,
  CASE WHEN n % 20 IN (14, 15) OR n % 20 = 16 AND i % 50 = 0 THEN 'delete' ELSE 'upsert' END AS operation,
  CASE WHEN n % 20 IN (14, 15) OR n % 20 = 16 AND i % 50 = 0 THEN NULL
       WHEN n % 20 = 16 THEN 'value ' || substr(md5('v' || i::VARCHAR), 1, 12)
       ELSE 'changed ' || n::VARCHAR END AS value
FROM (
  SELECT n, CASE WHEN n % 20 = 19 THEN {rows} + n ELSE ((n + 1) * 611953) % {rows} END AS i FROM range(0, {changes}) AS r(n)
)
"""


def generate(table, rows, files):
    """A state table of that many rows and files, without a guard, by delta-rs."""
    from deltalake import WriterProperties, write_deltalake

    rows, files = int(rows), int(files)
    con = duck()
    properties = WriterProperties(compression="SNAPPY", max_row_group_size=128 * 1024)
    for f in range(files):
        query = STATE.format(first=rows * f // files, last=rows * (f + 1) // files)
        write_deltalake(table, con.execute(query).to_arrow_table(), mode="append", writer_properties=properties)
    names = [f for f in os.listdir(table) if f.endswith(".parquet")]
    if len(names) != files:
        raise SystemExit(f"{len(names)} files were written; want {files}")
    return {"files": files, "bytes": sum(os.path.getsize(os.path.join(table, f)) for f in names)}


def changes(file, rows, count):
    """A change file whose keys are spread over the whole table."""
    query = CHANGES.format(rows=int(rows), changes=int(count))
    con = duck()
    con.execute(f"COPY ({query}) TO '{file}' (FORMAT parquet, CODEC snappy)")
    n, keys = con.execute("SELECT count(*), count(DISTINCT entity_id) FROM read_parquet($file)", {"file": file}).fetchone()
    return {"changes": n, "keys": keys}


def guarded(table, source, streamed):
    return (
        table.merge(
            source,
            predicate="t.entity_id = s.entity_id",
            source_alias="s",
            target_alias="t",
            streamed_exec=streamed,
        )
        .when_matched_update(
            predicate="s.source_version > t.source_version",
            updates={"source_version": "s.source_version", "status": "s.status", "value": "s.value"},
        )
        .when_matched_update(
            predicate="s.source_version = t.source_version AND t.status <> 'conflict' "
            "AND NOT (s.status = t.status AND s.value IS NOT DISTINCT FROM t.value)",
            updates={"status": "'conflict'", "value": "NULL"},
        )
        .when_not_matched_insert(
            updates={
                "entity_id": "s.entity_id",
                "source_version": "s.source_version",
                "status": "s.status",
                "value": "s.value",
            }
        )
        .execute()
    )


def merge(table, file, streamed):
    from deltalake import DeltaTable

    start = time.monotonic()
    source = duck().execute(FOLDED, {"file": file}).to_arrow_table()
    folded = time.monotonic()
    metrics = guarded(DeltaTable(table), source, streamed == "streamed")
    done = time.monotonic()
    return {"fold_seconds": folded - start, "merge_seconds": done - folded, "metrics": metrics}


def small_batches(folder, processes, batches):
    """Small change files with overlapping keys, the same in every run."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = random.Random(7)
    for who in range(int(processes)):
        for b in range(int(batches)):
            rows = []
            for n in range(rng.randint(1, 12)):
                op = "delete" if rng.randrange(5) == 0 else "upsert"
                rows.append({
                    "change_id": f"c{n}",
                    "entity_id": f"k{rng.randrange(200):03}",
                    "source_version": 1 + 2 * b + rng.randrange(5),
                    "operation": op,
                    "value": f"v{rng.randrange(3)}" if op == "upsert" else None,
                })
            schema = pa.schema([(n, pa.int64() if n == "source_version" else pa.string()) for n in rows[0]])
            pq.write_table(pa.Table.from_pylist(rows, schema), os.path.join(folder, f"batch-{who}-{b}.parquet"))
    return {}


def small_table(table):
    """The table that small batches go into: 100 of their keys, unguarded."""
    from deltalake import write_deltalake

    query = """
    SELECT format('k{:03d}', i) AS entity_id, 1::BIGINT AS source_version, 'active' AS status, 'first' AS value
    FROM range(0, 200, 2) AS r(i)
    """
    write_deltalake(table, duck().execute(query).to_arrow_table())
    return {}


def work(table, tries, *files):
    """One of several writers: merges files one after the other. What delta-rs
    gives up, after the retries of its own commit, is merged anew on the newest
    version, up to that many times in all."""
    from deltalake import DeltaTable

    gave_up, lost = {}, []
    began = time.monotonic()
    for file in files:
        source = duck().execute(FOLDED, {"file": file}).to_arrow_table()
        for n in range(int(tries)):
            try:
                guarded(DeltaTable(table), source, True)
                break
            except Exception as e:  # whatever it is, it is counted
                name = type(e).__name__
                gave_up[name] = gave_up.get(name, 0) + 1
                last = f"{name}: {e}"
                time.sleep(random.uniform(0, min(0.01 * 2**n, 1)))
        else:
            lost.append(f"{os.path.basename(file)}: {last}")
    return {"seconds": time.monotonic() - began, "gave_up": gave_up, "lost": lost}


def statement(table, file, kind, streamed):
    """The MERGE statements of bench/statements.go."""
    from deltalake import DeltaTable

    source = duck().execute("SELECT entity_id, source_version, value FROM read_parquet($file)", {"file": file}).to_arrow_table()
    start = time.monotonic()
    row = {"source_version": "s.source_version", "status": "'active'", "value": "s.value"}
    merger = (
        DeltaTable(table)
        .merge(
            source,
            predicate="t.entity_id = s.entity_id",
            source_alias="s",
            target_alias="t",
            streamed_exec=streamed == "streamed",
        )
        .when_matched_update(updates=row)
        .when_not_matched_insert(updates=row | {"entity_id": "s.entity_id"})
    )
    if kind == "sync":
        merger = merger.when_not_matched_by_source_delete(predicate="t.status = 'deleted'")
    metrics = merger.execute()
    return {"seconds": time.monotonic() - start, "metrics": metrics}


def fingerprint(table):
    """Equal for equal multisets of rows, whatever their order and files."""
    from deltalake import DeltaTable

    opened = DeltaTable(table)
    files = opened.file_uris()
    query = """
    SELECT count(*) AS rows, sum(hash(entity_id, source_version, status, value)::HUGEINT)::VARCHAR AS sum,
      count(*) FILTER (status = 'active') AS active, count(*) FILTER (status = 'deleted') AS deleted,
      count(*) FILTER (status = 'conflict') AS conflict, count(DISTINCT entity_id) AS keys
    FROM read_parquet($files)
    """
    con = duck()
    if "://" in table:  # DuckDB reads what delta-rs fetched: it needs no access of its own
        fetched = opened.to_pyarrow_table()
        query = query.replace("read_parquet($files)", "fetched")
        result = con.execute(query)
    else:
        result = con.execute(query, {"files": files})
    names = [d[0] for d in result.description]
    return dict(zip(names, result.fetchone())) | {"files": len(files), "version": opened.version()}


def ordered(table, rows, files, *changes):
    """A state table whose files hold ascending keys, and files of one change each."""
    from deltalake import DeltaTable, write_deltalake

    rows, files = int(rows), int(files)
    con = duck()
    query = """
    SELECT format('key-{{:010d}}', i) AS entity_id, (2 + i % 5)::BIGINT AS source_version, 'active' AS status,
      'value ' || substr(md5('v' || i::VARCHAR), 1, 12) AS value
    FROM range({first}, {last}) AS r(i)
    """
    for f in range(files):
        part = con.execute(query.format(first=rows * f // files, last=rows * (f + 1) // files)).to_arrow_table()
        write_deltalake(opened if f else table, part, mode="append")
        if f == 0:
            opened = DeltaTable(table)
    opened.update_incremental()
    opened.create_checkpoint()
    for n, change in enumerate(changes):
        con.execute(f"""
        COPY (SELECT 'c1' AS change_id, format('key-{{:010d}}', {rows // (n + 2)}) AS entity_id, 50::BIGINT AS source_version,
          'upsert' AS operation, 'changed' AS value) TO '{change}' (FORMAT parquet)
        """)
    return {}


def wide(table, files, rows):
    """Files of rows of 1 KiB that do not get smaller."""
    from deltalake import write_deltalake

    con = duck()
    text = " || ".join(f"md5('{n}' || i::VARCHAR)" for n in range(32))
    for f in range(int(files)):
        query = f"SELECT i, {text} AS text FROM range({f * int(rows)}, {(f + 1) * int(rows)}) AS r(i)"
        write_deltalake(table, con.execute(query).to_arrow_table(), mode="append")
    return {}


def scan(table):
    """All columns of all rows, none kept."""
    from deltalake import DeltaTable, QueryBuilder

    start = time.monotonic()
    rows = QueryBuilder().register("t", DeltaTable(table)).execute("SELECT * FROM t WHERE length(text) = 3").read_all()
    return {"seconds": time.monotonic() - start, "rows": rows.num_rows}


def open_table(table):
    from deltalake import DeltaTable

    start = time.monotonic()
    t = DeltaTable(table)
    files = len(t.file_uris())
    return {"seconds": time.monotonic() - start, "version": t.version(), "files": files}


def versions():
    import deltalake
    import duckdb

    return {"delta-rs": deltalake.__version__, "duckdb": duckdb.__version__}


COMMANDS = {f.__name__: f for f in (generate, changes, merge, statement, fingerprint, open_table, versions, small_batches, small_table, work, ordered, wide, scan)}

print(json.dumps(COMMANDS[sys.argv[1]](*sys.argv[2:])))
