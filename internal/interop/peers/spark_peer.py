"""Delta on Spark as a peer: one warm local session."""

import os
import sys

os.environ["TZ"] = "UTC"
JARS = sys.argv[1]
SCRATCH = sys.argv[2]

import peerlib
import pyspark
from pyspark.sql import SparkSession
from sqlpeer import Peer

session = (
    SparkSession.builder.master("local[2]")
    .appName("deltafold-interop")
    .config("spark.driver.extraClassPath", os.path.join(JARS, "*") + ":" + os.path.join(JARS + "-s3", "*"))
    .config("spark.driver.memory", "2g")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.extraJavaOptions", "-Xss4m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -Duser.timezone=UTC -Dderby.system.home=" + SCRATCH)
    .config("spark.local.dir", SCRATCH)
    .config("spark.sql.warehouse.dir", os.path.join(SCRATCH, "warehouse"))
    .config("spark.ui.enabled", "false")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.default.parallelism", "2")
    .config("spark.databricks.delta.snapshotPartitions", "2")
    .config("spark.sql.execution.arrow.pyspark.enabled", "true")
    .config("spark.log.level", "ERROR")
    .getOrCreate()
)



class Spark(Peer):
    """Buckets have settings of their own in S3A; tables there are s3a://…."""

    def s3(self, bucket, endpoint, access_key, secret_key, region):
        settings = {
            "endpoint": endpoint,
            "endpoint.region": region,
            "access.key": access_key,
            "secret.key": secret_key,
            "path.style.access": "true",
        }
        hadoop = session.sparkContext._jsc.hadoopConfiguration()
        for name, value in settings.items():
            hadoop.set(f"fs.s3a.bucket.{bucket}.{name}", value)


peerlib.serve(Spark(session, {"spark": pyspark.__version__}).commands())
session.stop()
