"""The options of writing with `format("hutong")`, under the names of Spark's own Kafka sink."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.cluster import ClusterSettings
from hutong.pipelines.option_values import cluster_of, count, refuse_unsupported
from hutong.pipelines.sink.registered import FORMATS, FramedColumn, formats_of, framed_columns, is_framed
from hutong.wire.kafka.batch.compression import Compression

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

APP_ID, VERSION = "txnAppId", "txnVersion"
APP_ID_LENGTH_MAX = 100
APP_ID_PATTERN = re.compile(rf"[A-Za-z0-9._-]{{1,{APP_ID_LENGTH_MAX}}}")
"""The characters of topics' names: the id becomes part of a group's name and of transactional ids."""
VERSION_MAX = 2**63 - 1
"""It is stored as an offset."""
BATCH_BYTES = 512 * 2**10
PRODUCE_TIMEOUT_MS = 30_000
TRANSACTION_TIMEOUT_MS = 900_000
"""The most that brokers allow by default: a transaction is open until the slowest task of its batch is done."""


class SinkDelivery(Enum):
    """Delivery guarantees. Names as in the option `delivery`."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True)
class WriteVersion:
    """One write of an application, which counts once however often it is asked for."""

    app_id: str
    version: int


@dataclass(frozen=True, slots=True)
class SinkOptions:
    cluster: ClusterSettings
    topic: str | None
    compression: Compression = Compression.NONE
    batch_bytes: int = BATCH_BYTES
    timeout_ms: int = PRODUCE_TIMEOUT_MS
    delivery: SinkDelivery | None = None
    """None: exactly once where the brokers have transactions."""
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    write_version: WriteVersion | None = None
    """None: a batch job that runs again writes its rows again."""
    framed: tuple[FramedColumn, ...] = ()
    """Columns that are written with the id of a registered schema."""


def sink_options(options: Mapping[str, str], *, streaming: bool = False) -> SinkOptions:
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
        write_version=_write_version(options, streaming),
    )


def sink_options_of(options: Mapping[str, str], schema: "StructType", *, streaming: bool = False) -> SinkOptions:
    """With what a registry says about columns of these types. Raises UsageError, or what the registry refuses."""
    formats = formats_of(options)
    if not any(is_framed(name) for name in formats.values()):
        return sink_options(options, streaming=streaming)
    from hutong.pipelines.engine.spark_types import kind_of_type

    kinds = {
        field.name: kind_of_type(field.dataType)
        for field in schema.fields
        if is_framed(formats.get(field.name, FORMATS[0]))
    }
    return replace(sink_options(options, streaming=streaming), framed=framed_columns(options, kinds))


def _write_version(options: Mapping[str, str], streaming: bool) -> WriteVersion | None:
    """Named as in Delta Lake, whose users know them."""
    given = [name for name in (APP_ID, VERSION) if name in options]
    if not given:
        return None
    if streaming:
        raise UsageError(
            f"option {given[0]} is for batch writes and foreachBatch: leave it out, a stream's batches are recorded"
        )
    if len(given) == 1:
        raise UsageError(f"option {given[0]} is given alone: set {APP_ID} and {VERSION} together")
    if _delivery(options) is SinkDelivery.AT_LEAST_ONCE:
        raise UsageError(f"option {APP_ID} needs transactions, and delivery is at-least-once: leave one of them out")
    app_id, version = options[APP_ID], count(options, VERSION, least=0)
    if not APP_ID_PATTERN.fullmatch(app_id):
        raise UsageError(
            f"option {APP_ID} is {app_id[:APP_ID_LENGTH_MAX]!r}: take letters, digits, '.', '_' and '-', at most "
            f"{APP_ID_LENGTH_MAX} of them"
        )
    assert version is not None
    if version > VERSION_MAX:
        raise UsageError(f"option {VERSION} is '{version}': it must be at most {VERSION_MAX}")
    return WriteVersion(app_id, version)


def _delivery(options: Mapping[str, str]) -> SinkDelivery | None:
    if "kafka.transactional.id" in options:
        raise UsageError(
            "option kafka.transactional.id is not supported: every task has an id of its own, made from the query's"
        )
    if "delivery" not in options:
        return None
    name = options["delivery"].lower().replace(" ", "-")
    if name not in [one.value for one in SinkDelivery]:
        raise UsageError(f"option delivery is '{options['delivery']}': take exactly-once or at-least-once")
    return SinkDelivery(name)
