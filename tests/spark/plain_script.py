"""What a user may write: a session as it comes, with Spark's own log, and queries that fail.

`plain_script.py HOST:PORT TOPIC`
"""

import sys
from contextlib import suppress

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hutong.pipelines import plain_errors

bootstrap, topic = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
source = {"kafka.bootstrap.servers": bootstrap}


def begin(name: str) -> None:
    sys.stderr.write(f"=== {name}\n")
    sys.stderr.flush()


begin("batch")
typed = {"subscribe": topic, "valueFormat": "json", "valueSchema": "n INT"}
with suppress(PySparkException):
    spark.read.format("hutong").options(**source, **typed).load().collect()

begin("stream")
frame = spark.readStream.format("hutong").options(**source, subscribe="no-such-topic").load()
with suppress(PySparkException):
    frame.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()

begin("caught")
with plain_errors():
    spark.read.format("hutong").options(**source, subscribe="no-such-topic").load().collect()
