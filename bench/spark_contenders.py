"""The contenders of `python -m bench spark`, their options, and our goals."""

from typing import Final

from bench.spark_jobs import Contender

JVM: Final = Contender("jvm", "kafka")
TUNED: Final = Contender(
    "jvm tuned",
    "kafka",
    {
        "kafka.max.partition.fetch.bytes": str(8 * 2**20),
        "kafka.fetch.max.bytes": str(64 * 2**20),
        "kafka.max.poll.records": "5000",
        "kafka.receive.buffer.bytes": str(2**20),
    },
    {
        "kafka.batch.size": str(512 * 2**10),
        "kafka.linger.ms": "20",
        "kafka.buffer.memory": str(128 * 2**20),
        "kafka.max.request.size": str(4 * 2**20),
    },
)
HUTONG: Final = Contender("hutong", "hutong", {}, {"delivery": "at-least-once"})
ONCE: Final = Contender("exactly once", "hutong", {}, {"delivery": "exactly-once"}, only_writes=True)
CEILING: Final = Contender("ceiling", "ceiling")
GOALS: Final = (
    # measurement contains, next to which, how many times as fast hutong means to be
    ("read 100 B", "jvm", 2.5), ("read 100 B", "jvm tuned", 1.7), ("read 100 B", "ceiling", 0.75),
    ("count 100 B", "jvm", 2.5), ("count 100 B", "jvm tuned", 1.7), ("count 100 B", "ceiling", 0.75),
    ("stream 100 B", "jvm", 1.8),
    ("read 1000 B", "jvm", 1.6), ("read 1000 B", "jvm tuned", 1.0), ("read 1000 B", "ceiling", 0.6),
    ("count 1000 B", "jvm", 1.6), ("count 1000 B", "jvm tuned", 1.0), ("count 1000 B", "ceiling", 0.6),
    ("write", "jvm", 1.5), ("write", "jvm tuned", 1.0), ("write", "exactly once", 1.33),
)  # fmt: skip
