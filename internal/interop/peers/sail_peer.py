"""Sail as a peer: its Spark Connect server in this process, and a client of it."""

import importlib.metadata
import os

os.environ["TZ"] = "UTC"
# A session that nobody asks for some minutes, while another peer works, is kept.
os.environ["SAIL_SPARK__SESSION_TIMEOUT_SECS"] = "86400"

import peerlib
from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession
from sqlpeer import Peer

server = SparkConnectServer("127.0.0.1", 0)
server.start()
_, port = server.listening_address
session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
session.conf.set("spark.sql.session.timeZone", "UTC")


class Sail(Peer):
    """Sail reads delta.`/path` as a database; tables need names there."""

    path_names = False

    def s3(self, bucket, endpoint, access_key, secret_key, region):
        """Sail has settings for all buckets alone, from its environment, which is this process's."""
        os.environ.update(
            AWS_ENDPOINT_URL=endpoint,
            AWS_ENDPOINT=endpoint,
            AWS_ALLOW_HTTP="true",
            AWS_ACCESS_KEY_ID=access_key,
            AWS_SECRET_ACCESS_KEY=secret_key,
            AWS_REGION=region,
        )


peerlib.serve(Sail(session, {"sail": importlib.metadata.version("pysail")}).commands())
session.stop()
server.stop()
