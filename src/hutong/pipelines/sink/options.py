"""The options of writing with `format("hutong")`, under the names of Spark's own Kafka sink."""

from collections.abc import Mapping
from dataclasses import dataclass

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.cluster import ClusterSettings
from hutong.pipelines.option_values import cluster_of, count, refuse_unsupported
from hutong.wire.kafka.compression import Compression

BATCH_BYTES = 512 * 2**10
PRODUCE_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class SinkOptions:
    cluster: ClusterSettings
    topic: str | None
    compression: Compression = Compression.NONE
    batch_bytes: int = BATCH_BYTES
    timeout_ms: int = PRODUCE_TIMEOUT_MS


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
    )
