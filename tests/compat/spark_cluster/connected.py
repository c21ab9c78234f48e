"""What a client of Spark Connect does: `connected.py URL BOOTSTRAP TOPIC FOLDER`. Prints one line of JSON.

Batch and stream, through the sessions that our commands use. No Java is started here.
"""

import json
import sys

from hutong.pipelines.engine.session import spark_session


def main(url: str, bootstrap: str, topic: str, folder: str) -> None:
    kafka = {"kafka.bootstrap.servers": bootstrap}
    with spark_session("connected", url) as spark:
        source = spark.read.format("hutong").options(**kafka).option("subscribe", topic)
        rows = source.load().selectExpr("cast(value as string) value", "partition", "offset").collect()
        stream = spark.readStream.format("hutong").options(**kafka).option("startingOffsets", "earliest")
        writer = stream.option("subscribe", topic).load().select("key", "value").writeStream.format("hutong")
        options = {"topic": f"{topic}-streamed", "checkpointLocation": folder}
        query = writer.options(**kafka, **options).trigger(availableNow=True).start()
        query.awaitTermination(120)
        copied = spark.read.format("hutong").options(**kafka).option("subscribe", f"{topic}-streamed").load().count()
    told = {"rows": sorted([row.value, row.partition, row.offset] for row in rows), "copied": copied}
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
