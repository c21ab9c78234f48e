"""The options of `format("hutong")`, under the names of Spark's own Kafka source and sink.

They arrive as text in a case-insensitive mapping and leave as typed values, checked: what is contradictory, or known to
that source but not done here, is refused with a sentence, never ignored. Settings under `kafka.` that only tune the
Java client have no counterpart here and are ignored.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from hutong.foundation.errors import UsageError
from hutong.pipelines.cluster import EARLIEST, LATEST, ClusterSettings, TopicPartition, parse_bootstrap
from hutong.pipelines.fetching import FetchSettings
from hutong.wire.kafka.compression import Compression

COLUMNS: Mapping[str, str] = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
"""The columns of a source with their types in Spark SQL."""
HEADERS_COLUMN = "headers"

STRATEGIES = ("subscribe", "subscribePattern", "assign")
NOT_DONE = ("minOffsetsPerTrigger", "maxTriggerDelay", "kafka.partition.assignment.strategy")
NOT_TAKEN: Mapping[str, str] = {
    "kafka.auto.offset.reset": "use startingOffsets and endingOffsets",
    "kafka.key.deserializer": "keys are binary: cast them in the query",
    "kafka.value.deserializer": "values are binary: cast them in the query",
    "kafka.key.serializer": "cast the column key to string or binary in the query",
    "kafka.value.serializer": "cast the column value to string or binary in the query",
    "kafka.enable.auto.commit": "Spark keeps the offsets in its checkpoint",
    "kafka.interceptor.classes": "there is no Java client to intercept",
}
PLAINTEXT = "PLAINTEXT"
BATCH_BYTES = 512 * 2**10
PRODUCE_TIMEOUT_MS = 30_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions: of the topics `names`, of all that match `pattern` as a whole, or exactly `assigned`."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetRule:
    """Where a range starts or ends: by partition where given, else by timestamp, else the position `otherwise`.

    Offsets may be `EARLIEST` or `LATEST`. `must_match`: a timestamp after the last record is an error; if not, it means
    the end of the partition.
    """

    otherwise: int
    offsets: Mapping[TopicPartition, int] | None = None
    timestamp_ms: int | None = None
    timestamps_ms: Mapping[TopicPartition, int] | None = None
    must_match: bool = True


@dataclass(frozen=True, slots=True)
class SourceOptions:
    cluster: ClusterSettings
    fetch: FetchSettings
    subscription: Subscription
    starting: OffsetRule
    ending: OffsetRule
    columns: tuple[str, ...]
    records_per_trigger_max: int | None = None
    partitions_min: int | None = None
    records_per_partition_max: int | None = None


@dataclass(frozen=True, slots=True)
class SinkOptions:
    cluster: ClusterSettings
    topic: str | None
    compression: Compression = Compression.NONE
    batch_bytes: int = BATCH_BYTES
    timeout_ms: int = PRODUCE_TIMEOUT_MS


def columns_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a source: those in the option `columns`, or all, `headers` only with `includeHeaders`."""
    if "columns" not in options:
        with_headers = _boolean(options, "includeHeaders", False)
        return tuple(name for name in COLUMNS if with_headers or name != HEADERS_COLUMN)
    wanted = _names(options["columns"])
    unknown = [name for name in wanted if name not in COLUMNS]
    if unknown or not wanted:
        raise UsageError(f"option columns names {', '.join(unknown) or 'nothing'}: there are {', '.join(COLUMNS)}")
    return tuple(dict.fromkeys(wanted))


def schema_of(options: Mapping[str, str]) -> str:
    """The schema of a source in Spark SQL's words."""
    return ", ".join(f"{name} {COLUMNS[name]}" for name in columns_of(options))


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Raises UsageError."""
    _refuse(options)
    starting = _starting(options, streaming)
    return SourceOptions(
        cluster=_cluster(options),
        fetch=_fetch(options),
        subscription=_subscription(options),
        starting=starting,
        ending=OffsetRule(LATEST) if streaming else _ending(options),
        columns=columns_of(options),
        records_per_trigger_max=_count(options, "maxOffsetsPerTrigger"),
        partitions_min=_count(options, "minPartitions"),
        records_per_partition_max=_count(options, "maxRecordsPerPartition"),
    )


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Raises UsageError."""
    _refuse(options)
    name = options.get("kafka.compression.type", "none").upper()
    if name not in Compression.__members__:
        raise UsageError(f"option kafka.compression.type is '{name.lower()}': take none, gzip, snappy, lz4 or zstd")
    return SinkOptions(
        cluster=_cluster(options),
        topic=options.get("topic"),
        compression=Compression[name],
        batch_bytes=_count(options, "kafka.batch.size") or BATCH_BYTES,
        timeout_ms=_count(options, "kafka.request.timeout.ms") or PRODUCE_TIMEOUT_MS,
    )


def _refuse(options: Mapping[str, str]) -> None:
    for name in NOT_DONE:
        if name in options:
            raise UsageError(f"option {name} is not supported by the hutong source: leave it out")
    for name, advice in NOT_TAKEN.items():
        if name in options:
            raise UsageError(f"option {name} is not supported: {advice}")
    protocol = options.get("kafka.security.protocol", PLAINTEXT).upper()
    if protocol != PLAINTEXT:
        raise UsageError(f"option kafka.security.protocol is {protocol}: only {PLAINTEXT} is supported yet")


def _cluster(options: Mapping[str, str]) -> ClusterSettings:
    if "kafka.bootstrap.servers" not in options:
        raise UsageError("option kafka.bootstrap.servers must be given, as HOST:PORT of one broker or several")
    isolation = options.get("kafka.isolation.level", "read_uncommitted")
    if isolation not in ("read_uncommitted", "read_committed"):
        raise UsageError(f"option kafka.isolation.level is '{isolation}': take read_uncommitted or read_committed")
    defaults = ClusterSettings(_parsed("kafka.bootstrap.servers", options["kafka.bootstrap.servers"], parse_bootstrap))
    return replace(
        defaults,
        read_committed=isolation == "read_committed",
        request_timeout_ms=_count(options, "kafka.request.timeout.ms") or defaults.request_timeout_ms,
        retry_ms=_count(options, "kafka.default.api.timeout.ms") or defaults.retry_ms,
    )


def _fetch(options: Mapping[str, str]) -> FetchSettings:
    defaults = FetchSettings()
    return FetchSettings(
        fetch_bytes=_count(options, "kafka.max.partition.fetch.bytes") or defaults.fetch_bytes,
        wait_ms_max=_count(options, "kafka.fetch.max.wait.ms") or defaults.wait_ms_max,
        fail_on_data_loss=_boolean(options, "failOnDataLoss", True),
    )


def _subscription(options: Mapping[str, str]) -> Subscription:
    given = [name for name in STRATEGIES if name in options]
    if len(given) != 1:
        raise UsageError(f"exactly one of the options {', '.join(STRATEGIES)} must be given, not {len(given)}")
    text = options[given[0]].strip()
    match given[0]:
        case "subscribe":
            names = _names(text)
            if not names:
                raise UsageError("option subscribe names no topic")
            return Subscription(names=tuple(dict.fromkeys(names)))
        case "subscribePattern":
            _parsed("subscribePattern", text, re.compile)
            return Subscription(pattern=text)
        case _:
            return Subscription(assigned=tuple(_parsed("assign", text, _assignment)))


def _starting(options: Mapping[str, str], streaming: bool) -> OffsetRule:
    rule = _rule(options, "starting", LATEST if streaming else EARLIEST)
    if not streaming and (rule.otherwise == LATEST or LATEST in (rule.offsets or {}).values()):
        raise UsageError("startingOffsets cannot be latest in a batch query: there would be nothing to read")
    return rule


def _ending(options: Mapping[str, str]) -> OffsetRule:
    rule = _rule(options, "ending", LATEST)
    if rule.otherwise == EARLIEST or EARLIEST in (rule.offsets or {}).values():
        raise UsageError("endingOffsets cannot be earliest: there would be nothing to read")
    return rule


def _rule(options: Mapping[str, str], side: str, default: int) -> OffsetRule:
    """In the order of Spark's own source: one timestamp, timestamps by partition, offsets."""
    timestamp_ms = _count(options, f"{side}Timestamp", least=0)
    if timestamp_ms is not None:
        return OffsetRule(default, timestamp_ms=timestamp_ms, must_match=_must_match(options, side))
    by_timestamp = f"{side}OffsetsByTimestamp"
    if by_timestamp in options:
        timestamps_ms = _parsed(by_timestamp, options[by_timestamp], _by_partition)
        return OffsetRule(default, timestamps_ms=timestamps_ms, must_match=_must_match(options, side))
    text = options.get(f"{side}Offsets", "").strip()
    if text.lower() in ("", "earliest", "latest"):
        return OffsetRule({"earliest": EARLIEST, "latest": LATEST}.get(text.lower(), default))
    return OffsetRule(default, offsets=_parsed(f"{side}Offsets", text, _by_partition))


def _must_match(options: Mapping[str, str], side: str) -> bool:
    """Ends after the last record are the end; starts after it are an error unless the user says otherwise."""
    strategy = options.get("startingOffsetsByTimestampStrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise UsageError(f"option startingOffsetsByTimestampStrategy is '{strategy}': take error or latest")
    return side == "starting" and strategy == "error"


def _assignment(text: str) -> list[TopicPartition]:
    """Reads {"topic": [0, 1]}."""
    assigned = [
        TopicPartition(_typed(topic, str), _typed(partition, int))
        for topic, partitions in _typed(json.loads(text), dict).items()
        for partition in _typed(partitions, list)
    ]
    if not assigned:
        raise ValueError("it names no partition")
    return assigned


def _by_partition(text: str) -> dict[TopicPartition, int]:
    """Reads {"topic": {"0": 23, "1": -2}}."""
    return {
        TopicPartition(_typed(topic, str), int(partition)): _typed(number, int)
        for topic, numbers in _typed(json.loads(text), dict).items()
        for partition, number in _typed(numbers, dict).items()
    }


def _typed(value: object, kind: type[T]) -> T:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{value!r} stands where {kind.__name__} is expected")
    return value


def _names(text: str) -> Sequence[str]:
    return [name for name in (part.strip() for part in text.split(",")) if name]


def _parsed(name: str, text: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except (ValueError, re.error) as error:
        raise UsageError(f"option {name} is not valid: {error}") from error


def _boolean(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise UsageError(f"option {name} is '{text}': take true or false")
    return text == "true"


def _count(options: Mapping[str, str], name: str, least: int = 1) -> int | None:
    if name not in options:
        return None
    try:
        number = int(options[name])
    except ValueError:
        number = least - 1
    if number < least:
        raise UsageError(f"option {name} is '{options[name]}': it must be a whole number from {least}")
    return number
