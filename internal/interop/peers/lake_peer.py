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


# Buckets on S3 that tests told of, by name: the arguments of the command s3.
BUCKETS = {}


def s3(bucket, endpoint, access_key, secret_key, region):
    """Tells where a bucket is and how to open it."""
    BUCKETS[bucket] = {"endpoint": endpoint, "access_key": access_key, "secret_key": secret_key, "region": region}


def options(path):
    """The storage options of delta-rs for the table at path."""
    scheme, _, rest = path.partition("://")
    if scheme != "s3":
        return None
    b = BUCKETS[rest.partition("/")[0]]
    return {
        "AWS_ENDPOINT_URL": b["endpoint"],
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": b["access_key"],
        "AWS_SECRET_ACCESS_KEY": b["secret_key"],
        "AWS_REGION": b["region"],
        "aws_conditional_put": "etag",
    }


def load_extension(con, name):
    """Loads an extension of DuckDB from its package, without a download."""
    folder = importlib.util.find_spec("duckdb_extension_" + name).submodule_search_locations[0]
    (extension,) = glob.glob(os.path.join(folder, "extensions", "*", name + ".duckdb_extension"))
    con.execute(f"LOAD '{extension}'")


def open_duck():
    """A connection with the delta extension, and httpfs if there are buckets."""
    con = duckdb.connect(":memory:", config={"allow_unsigned_extensions": "true"})
    load_extension(con, "delta")
    if BUCKETS:
        load_extension(con, "httpfs")
    for i, (bucket, b) in enumerate(BUCKETS.items()):
        con.execute(
            f"CREATE SECRET bucket_{i} (TYPE s3, SCOPE {text('s3://' + bucket)}, KEY_ID {text(b['access_key'])}, "
            f"SECRET {text(b['secret_key'])}, REGION {text(b['region'])}, URL_STYLE 'path', USE_SSL false, "
            f"ENDPOINT {text(b['endpoint'].partition('://')[2])})"
        )
    con.execute("SET TimeZone = 'UTC'")
    con.execute("SET threads = 2")
    return con


def open_table(path, version=None):
    return DeltaTable(path, version=version, storage_options=options(path))


def as_arrow(result):
    """An Arrow table of whatever Arrow stream a peer gives."""
    return pa.table(result)


# --- delta-rs ----------------------------------------------------------------


def rs_read(path, version=None, where=None):
    sql = "SELECT * FROM t" if where is None else f"SELECT * FROM t WHERE {where}"
    table = open_table(path, version)
    return peerlib.rows_from_table(as_arrow(QueryBuilder().register("t", table).execute(sql)))


def rs_write(path, columns, rows, mode="append", partition_by=None, properties=None):
    if mode == "create":
        DeltaTable.create(
            path,
            schema=deltalake.Schema.from_arrow(peerlib.arrow_schema(columns)),
            partition_by=partition_by or [],
            configuration=properties,
            storage_options=options(path),
        )
    if rows:
        mode = "overwrite" if mode == "overwrite" else "append"
        write_deltalake(path, peerlib.table_from_rows(columns, rows), mode=mode, storage_options=options(path))


def rs_merge(path, columns, rows, keys):
    source = peerlib.table_from_rows(columns, rows)
    (
        open_table(path)
        .merge(source, predicate=" AND ".join(f't."{k}" = s."{k}"' for k in keys), source_alias="s", target_alias="t")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


def rs_delete(path, where):
    open_table(path).delete(where)


def rs_update(path, updates, where):
    open_table(path).update(updates=updates, predicate=where)


def rs_checkpoint(path):
    open_table(path).create_checkpoint()


def rs_history(path):
    """[[version, operation], …], newest first."""
    return [[h["version"], h["operation"]] for h in open_table(path).history()]


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
        # What is not a local file it opens to read only, unless told.
        con.execute(f"ATTACH {text(path)} AS t (TYPE delta, READ_WRITE)")
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
        "s3": s3,
        "read": rs_read,
        "write": rs_write,
        "merge": rs_merge,
        "delete": rs_delete,
        "update": rs_update,
        "checkpoint": rs_checkpoint,
        "history": rs_history,
        "statement": lambda path, **arguments: mergepeer.rs_statement(open_table(path), **arguments),
        "duck_read": duck_read,
        "duck_write": duck_write,
        "duck_sql": duck_sql,
    }
)
