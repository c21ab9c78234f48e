"""Spark declarative pipelines over topics: what `spark-pipelines run` reads.

Transformations are plain functions of DataFrames, so the same ones serve a pipeline of `hutong pipeline run`.
The source is found by its name and must not be registered.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
TOPIC = os.environ.get("READINGS_TOPIC", "readings")
KAFKA = {"kafka.bootstrap.servers": os.environ.get("READINGS_BOOTSTRAP", "127.0.0.1:9092")}
READ = KAFKA | {"subscribe": TOPIC, "startingOffsets": "earliest", "valueFormat": "string"}


def high(readings: DataFrame) -> DataFrame:
    """Readings of 100 and more."""
    return readings.where("CAST(value AS INT) >= 100").select("key", "value")


@dp.materialized_view
def readings_per_partition() -> DataFrame:
    """Computed anew by each run."""
    return spark.read.format("hutong").options(**READ).load().groupBy("partition").count()


dp.create_sink("high_readings", "hutong", KAFKA | {"topic": f"{TOPIC}-high"})


@dp.append_flow(target="high_readings")
def high_readings_flow() -> DataFrame:
    """Goes on where the run before ended."""
    return high(spark.readStream.format("hutong").options(**READ).load())
