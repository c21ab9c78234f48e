"""The options of reading with `format("hutong")`, under the names of Spark's own Kafka source."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.cluster import EARLIEST, LATEST, ClusterSettings, TopicPartition
from hutong.pipelines.option_values import boolean, cluster_of, count, names_in, parsed, refuse_unsupported, typed
from hutong.pipelines.source.fetching import FetchSettings

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


def columns_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a source: those in the option `columns`, or all, `headers` only with `includeHeaders`."""
    if "columns" not in options:
        with_headers = boolean(options, "includeHeaders", False)
        return tuple(name for name in COLUMNS if with_headers or name != HEADERS_COLUMN)
    wanted = names_in(options["columns"])
    unknown = [name for name in wanted if name not in COLUMNS]
    if unknown or not wanted:
        raise UsageError(f"option columns names {', '.join(unknown) or 'nothing'}: there are {', '.join(COLUMNS)}")
    return tuple(dict.fromkeys(wanted))


def schema_of(options: Mapping[str, str]) -> str:
    """The schema of a source in Spark SQL's words."""
    return ", ".join(f"{name} {COLUMNS[name]}" for name in columns_of(options))


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Raises UsageError."""
    refuse_unsupported(options)
    starting = _starting(options, streaming)
    return SourceOptions(
        cluster=cluster_of(options),
        fetch=_fetch(options),
        subscription=_subscription(options),
        starting=starting,
        ending=OffsetRule(LATEST) if streaming else _ending(options),
        columns=columns_of(options),
        records_per_trigger_max=count(options, "maxOffsetsPerTrigger"),
        partitions_min=count(options, "minPartitions"),
        records_per_partition_max=count(options, "maxRecordsPerPartition"),
    )


def _fetch(options: Mapping[str, str]) -> FetchSettings:
    defaults = FetchSettings()
    return FetchSettings(
        fetch_bytes=count(options, "kafka.max.partition.fetch.bytes") or defaults.fetch_bytes,
        wait_ms_max=count(options, "kafka.fetch.max.wait.ms") or defaults.wait_ms_max,
        fail_on_data_loss=boolean(options, "failOnDataLoss", True),
    )


def _subscription(options: Mapping[str, str]) -> Subscription:
    given = [name for name in STRATEGIES if name in options]
    if len(given) != 1:
        raise UsageError(f"exactly one of the options {', '.join(STRATEGIES)} must be given, not {len(given)}")
    text = options[given[0]].strip()
    match given[0]:
        case "subscribe":
            names = names_in(text)
            if not names:
                raise UsageError("option subscribe names no topic")
            return Subscription(names=tuple(dict.fromkeys(names)))
        case "subscribePattern":
            parsed("subscribePattern", text, re.compile)
            return Subscription(pattern=text)
        case _:
            return Subscription(assigned=tuple(parsed("assign", text, _assignment)))


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
    timestamp_ms = count(options, f"{side}Timestamp", least=0)
    if timestamp_ms is not None:
        return OffsetRule(default, timestamp_ms=timestamp_ms, must_match=_must_match(options, side))
    by_timestamp = f"{side}OffsetsByTimestamp"
    if by_timestamp in options:
        timestamps_ms = parsed(by_timestamp, options[by_timestamp], _by_partition)
        return OffsetRule(default, timestamps_ms=timestamps_ms, must_match=_must_match(options, side))
    text = options.get(f"{side}Offsets", "").strip()
    if text.lower() in ("", "earliest", "latest"):
        return OffsetRule({"earliest": EARLIEST, "latest": LATEST}.get(text.lower(), default))
    return OffsetRule(default, offsets=parsed(f"{side}Offsets", text, _by_partition))


def _must_match(options: Mapping[str, str], side: str) -> bool:
    """Ends after the last record are the end; starts after it are an error unless the user says otherwise."""
    strategy = options.get("startingOffsetsByTimestampStrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise UsageError(f"option startingOffsetsByTimestampStrategy is '{strategy}': take error or latest")
    return side == "starting" and strategy == "error"


def _assignment(text: str) -> list[TopicPartition]:
    """Reads {"topic": [0, 1]}."""
    assigned = [
        TopicPartition(typed(topic, str), typed(partition, int))
        for topic, partitions in typed(json.loads(text), dict).items()
        for partition in typed(partitions, list)
    ]
    if not assigned:
        raise ValueError("it names no partition")
    return assigned


def _by_partition(text: str) -> dict[TopicPartition, int]:
    """Reads {"topic": {"0": 23, "1": -2}}."""
    return {
        TopicPartition(typed(topic, str), int(partition)): typed(number, int)
        for topic, numbers in typed(json.loads(text), dict).items()
        for partition, number in typed(numbers, dict).items()
    }
