"""What `spark-submit` runs on the cluster: `submitted.py BOOTSTRAP TOPIC FORMAT`. Prints one line of JSON.

With a zip alone, a source has to be registered: Spark looks for it in what is installed. The program says where its
executors found the package.
"""

import json
import sys

from pyspark.sql import SparkSession


def source_of(_: int) -> str:
    import hutong

    return str(hutong.__file__)


def main(bootstrap: str, topic: str, source: str) -> None:
    spark = SparkSession.builder.appName("submitted").getOrCreate()
    if source == "hutong":
        from pyspark_hutong import DefaultSource

        spark.dataSource.register(DefaultSource)
    kafka = {"kafka.bootstrap.servers": bootstrap}
    frame = spark.read.format(source).options(**kafka).option("subscribe", topic).load()
    rows = frame.selectExpr("cast(value as string) value", "partition", "offset").collect()
    copied = frame.selectExpr("key", "value").write.format(source).mode("append").options(**kafka)
    copied.option("topic", f"{topic}-copy-of-{source}").save()
    told = {
        "rows": sorted([row.value, row.partition, row.offset] for row in rows),
        "places": sorted(set(spark.sparkContext.parallelize(range(4), 4).map(source_of).collect())),
    }
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
