"""Commands that Spark and Sail share: both are driven by Spark's Python API."""

import os

import mergepeer
import peerlib

GUARDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "testdata", "guarded_merge.sql")


def literal(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Peer:
    """One warm session."""

    # Whether a table may be named by its path, as delta.`/path`.
    path_names = True

    def __init__(self, session, versions):
        self.session = session
        self.versions = versions
        self.names = {}
        self.guarded = peerlib.named_statements(GUARDED)

    def commands(self):
        return {
            "versions": lambda: self.versions,
            "s3": self.s3,
            "sql": self.sql,
            "run": self.run,
            "read": self.read,
            "schema": self.schema,
            "history": self.history,
            "write": self.write,
            "merge": self.merge,
            "guarded": self.guarded_merge,
            "statement": lambda **arguments: mergepeer.sql_statement(self, **arguments),
        }

    def target(self, path):
        """The name of the table at path in SQL."""
        if self.path_names:
            return "delta.`" + path.replace("`", "``") + "`"
        if path not in self.names:
            name = f"target_{len(self.names)}"
            self.session.sql(f"CREATE TABLE {name} USING delta LOCATION {literal(path)}").collect()
            self.names[path] = name
        return self.names[path]

    def frame(self, columns, rows):
        """A data frame with exactly these types."""
        # The types are named: from Arrow alone Spark takes a timestamp_ntz for a timestamp.
        return self.session.createDataFrame(peerlib.table_from_rows(columns, rows), schema=peerlib.sql_columns(columns))

    def sql(self, sql, path=None):
        if path is not None:
            sql = sql.replace("{target}", self.target(path))
        return peerlib.rows_from_table(self.session.sql(sql).toArrow())

    def run(self, sql, path):
        """Runs a statement for its effect: not every result has an Arrow form."""
        self.session.sql(sql.replace("{target}", self.target(path))).collect()

    def read(self, path, version=None, where=None):
        reader = self.session.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        frame = reader.load(path)
        if where is not None:
            frame = frame.where(where)
        return peerlib.rows_from_table(frame.toArrow())

    def schema(self, path):
        """[[name, type], …] as the peer sees them, in its own words for types."""
        fields = self.session.read.format("delta").load(path).schema.fields
        return [[f.name, f.dataType.simpleString()] for f in fields]

    def history(self, path):
        """[[version, operation], …], newest first."""
        rows = self.session.sql(f"DESCRIBE HISTORY {self.target(path)}").select("version", "operation").collect()
        return [[r.version, r.operation] for r in rows]

    def write(self, path, columns, rows, mode="append", partition_by=None, properties=None):
        """Appends rows; mode "create" makes the table first, "overwrite" replaces all."""
        if mode == "create":
            self.create(path, columns, partition_by, properties)
        if rows:
            mode = "overwrite" if mode == "overwrite" else "append"
            self.frame(columns, rows).write.format("delta").mode(mode).save(path)

    def create(self, path, columns, partition_by=None, properties=None):
        name = f"target_{len(self.names)}"
        sql = f"CREATE TABLE {name} ({peerlib.sql_columns(columns)}) USING DELTA LOCATION {literal(path)}"
        if partition_by:
            sql += " PARTITIONED BY (" + ", ".join(f"`{c}`" for c in partition_by) + ")"
        if properties:
            sql += " TBLPROPERTIES (" + ", ".join(f"{literal(k)} = {literal(v)}" for k, v in properties.items()) + ")"
        self.session.sql(sql).collect()
        self.names[path] = name

    def merge(self, path, columns, rows, keys):
        """Upsert by the key columns."""
        self.frame(columns, rows).createOrReplaceTempView("merge_source")
        condition = " AND ".join(f"t.`{k}` = s.`{k}`" for k in keys)
        self.session.sql(
            f"MERGE INTO {self.target(path)} AS t USING merge_source AS s ON {condition} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ).collect()

    def guarded_merge(self, path, columns, rows):
        """The rules of the guarded merge as SQL: the outcomes, then the merge."""
        self.frame(columns, rows).createOrReplaceTempView("guarded_input")
        outcomes = None
        for name, sql in self.guarded.items():
            result = self.session.sql(sql.replace("{target}", self.target(path)))
            if name == "outcomes":
                outcomes = peerlib.rows_from_table(result.toArrow())
            else:
                result.collect()
        return outcomes
