"""A query that copies a topic to another exactly once, in a driver process that a test kills.

    copying_query BOOTSTRAP SOURCE TARGET CHECKPOINT

Prints a line per query that was started; what a query failed with goes to standard error, and it is started again.
"""

import sys

from hutong.pipelines.engine.session import spark_session

TRIGGER = "100 milliseconds"
BATCH_RECORDS = "3000"
FAILURES_MAX = 50
ATTEMPTS = 4
MASTER = f"local[2,{ATTEMPTS}]"
SETTINGS = {"spark.driver.memory": "1g", "spark.sql.streaming.numRecentProgressUpdates": "2"}


def main(bootstrap: str, source: str, target: str, checkpoint: str) -> int:
    from pyspark.errors import PySparkException

    brokers = {"kafka.bootstrap.servers": bootstrap, "kafka.default.api.timeout.ms": "60000"}
    reading = brokers | {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": BATCH_RECORDS}
    with spark_session("copying", MASTER, SETTINGS, quick=True) as session:
        for number in range(FAILURES_MAX):
            frame = session.readStream.format("hutong").options(**reading).load().select("partition", "value")
            writer = frame.writeStream.format("hutong").options(**brokers, topic=target, delivery="exactly-once")
            query = writer.option("checkpointLocation", checkpoint).trigger(processingTime=TRIGGER).start()
            print(f"query {number}", flush=True)
            try:
                query.awaitTermination()
            except PySparkException as error:
                print(error, file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
