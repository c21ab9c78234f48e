"""The options of writing with `format("hutong")`, under the names of Spark's own Kafka sink."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.cluster import ClusterSettings
from hutong.pipelines.option_values import cluster_of, count, refuse_unsupported
from hutong.wire.kafka.compression import Compression

BATCH_BYTES = 512 * 2**10
PRODUCE_TIMEOUT_MS = 30_000
TRANSACTION_TIMEOUT_MS = 900_000
"""The most that brokers allow by default: a transaction is open until the slowest task of its batch is done."""


class Delivery(Enum):
    """What a reader finds of each row. Names as in the option `delivery`."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    cluster: ClusterSettings
    topic: str | None
    compression: Compression = Compression.NONE
    batch_bytes: int = BATCH_BYTES
    timeout_ms: int = PRODUCE_TIMEOUT_MS
    delivery: Delivery | None = None
    """None: exactly once where the brokers have transactions."""
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Raises UsageError."""
    refuse_unsupported(options)
    name = options.get("kafka.compression.type", "none").upper()
    if name not in Compression.__members__:
        raise UsageError(f"option kafka.compression.type is '{name.lower()}': take none, gzip, snappy, lz4 or zstd")
    return SinkOptions(
        cluster=cluster_of(options),
        topic=options.get("topic"),
        compression=Compression[name],
        batch_bytes=count(options, "kafka.batch.size") or BATCH_BYTES,
        timeout_ms=count(options, "kafka.request.timeout.ms") or PRODUCE_TIMEOUT_MS,
        delivery=_delivery(options),
        transaction_timeout_ms=count(options, "kafka.transaction.timeout.ms") or TRANSACTION_TIMEOUT_MS,
    )


def _delivery(options: Mapping[str, str]) -> Delivery | None:
    if "kafka.transactional.id" in options:
        raise UsageError(
            "option kafka.transactional.id is not supported: every task has an id of its own, made from the query's"
        )
    if "delivery" not in options:
        return None
    name = options["delivery"].lower().replace(" ", "-")
    if name not in [one.value for one in Delivery]:
        raise UsageError(f"option delivery is '{options['delivery']}': take exactly-once or at-least-once")
    return Delivery(name)
