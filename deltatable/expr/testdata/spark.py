"""What Spark makes of expressions, as functions.jsonl has it.

    .ci/peers; peers=$(.ci/peers --path)
    "$peers/spark/bin/python" deltatable/expr/testdata/spark.py < expressions.txt > deltatable/expr/testdata/functions.jsonl

Each line read is an expression over the columns of sample.json. Each line
written says its type and its value as text for every row: null, or "!" and the
error's class where Spark fails. An expression that Spark refuses has one error.
"""

import json
import os
import sys

os.environ["TZ"] = "UTC"

from pyspark.sql import SparkSession

here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "sample.json"), encoding="utf-8") as f:
    sample = json.load(f)

answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.extraJavaOptions", "-Xss4m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.codegen.wholeStage", "false")
    .config("spark.log.level", "FATAL")
    .getOrCreate()
)

selects = []
for row in sample["rows"]:
    cells = ", ".join(f"{cell} AS {name}" for cell, name in zip(row, sample["columns"]))
    selects.append("SELECT " + cells)
spark.sql(" UNION ALL ".join(selects)).repartition(1).sortWithinPartitions("id").createOrReplaceTempView("unsaved")
# Collected and made anew, so that nothing is folded into the expressions.
table = spark.table("unsaved")
spark.createDataFrame(table.collect(), table.schema).createOrReplaceTempView("sample")


def failure(e):
    name = getattr(e, "getCondition", lambda: None)() or type(e).__name__
    return "!" + name


def answer(text):
    out = {"expr": text}
    try:
        kind = spark.sql(f"SELECT typeof({text}) FROM sample LIMIT 1")
        out["type"] = kind.collect()[0][0]
    except Exception as e:
        try:  # constants that fail do so while they are planned
            out["type"] = spark.sql(f"SELECT {text} AS x FROM sample").schema[0].dataType.simpleString()
        except Exception:
            out["error"] = failure(e)
            return out
    # Over the rows themselves: a cast beneath the same projection as typeof would be folded.
    query = f"SELECT id, CAST(({text}) AS STRING) FROM sample"
    try:
        out["rows"] = [r[1] for r in sorted(spark.sql(query).collect())]
    except Exception:
        out["rows"] = []
        for row in sample["rows"]:
            try:
                out["rows"].append(spark.sql(f"{query} WHERE id = {row[0]}").collect()[0][1])
            except Exception as e:
                out["rows"].append(failure(e))
    return out


for line in sys.stdin:
    line = line.rstrip("\n")
    if line and not line.startswith("#"):
        answers.write(json.dumps(answer(line), ensure_ascii=False) + "\n")
        answers.flush()
spark.stop()
