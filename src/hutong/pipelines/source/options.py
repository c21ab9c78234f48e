"""The options of reading with `format("hutong")`, under the names of Spark's own Kafka source."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.cluster import ClusterSettings, TopicPartition
from hutong.pipelines.option_values import boolean, cluster_of, count, names_in, parsed, refuse_unsupported
from hutong.pipelines.source.admission import TriggerLimits, trigger_limits
from hutong.pipelines.source.fetching import FetchSettings
from hutong.pipelines.source.offset_rules import OffsetRule, assignment, ending_rule, starting_rule
from hutong.pipelines.source.option_names import refuse_misspelt
from hutong.pipelines.source.rows.formats import KEEP, UNDECODABLE_COLUMN, RowFormat, column_type, row_format

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
LOOK_AGAIN_COUNT = 3
LOOK_AGAIN_MS = 1_000


@dataclass(frozen=True, slots=True)
class Subscription:
    """The selected partitions: of the topics `names`, of all that fully match `pattern`, or exactly `assigned`."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    cluster: ClusterSettings
    fetch: FetchSettings
    subscription: Subscription
    starting: OffsetRule
    ending: OffsetRule
    columns: tuple[str, ...]
    row: RowFormat
    limits: TriggerLimits
    push_filters: bool = False
    look_again_count: int = LOOK_AGAIN_COUNT
    """The number of repeated requests before a stream declares data lost."""
    look_again_ms: int = LOOK_AGAIN_MS
    partitions_min: int | None = None
    records_per_partition_max: int | None = None
    group_id: str | None = None
    """The consumer group that a stream's progress is committed for, to be seen by lag tools."""


def columns_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a source: those in the option `columns`, or all.

    `headers` comes only with `includeHeaders`, `undecodable` only where what cannot be decoded is kept.
    """
    with_headers = boolean(options, "includeHeaders", False)
    keeps = row_format(options).undecodable == KEEP
    there = {**COLUMNS, UNDECODABLE_COLUMN: ""} if keeps else COLUMNS
    if "columns" not in options:
        return tuple(name for name in there if with_headers or name != HEADERS_COLUMN)
    wanted = names_in(options["columns"])
    unknown = [name for name in wanted if name not in there]
    if unknown or not wanted:
        raise UsageError(f"option columns names {', '.join(unknown) or 'nothing'}: there are {', '.join(there)}")
    return tuple(dict.fromkeys(wanted))


def schema_of(options: Mapping[str, str]) -> str:
    """The schema of a source in Spark SQL's words."""
    row = row_format(options)
    return ", ".join(f"{name} {column_type(row, name) or COLUMNS[name]}" for name in columns_of(options))


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Raises UsageError."""
    refuse_misspelt(options)
    refuse_unsupported(options)
    push_filters = boolean(options, "pushFilters", False)
    if streaming and push_filters:
        raise UsageError("option pushFilters is for batch queries: Spark pushes no filters into a stream; leave it out")
    return SourceOptions(
        cluster=cluster_of(options),
        fetch=_fetch(options),
        subscription=_subscription(options),
        starting=starting_rule(options, streaming),
        ending=ending_rule(options, streaming),
        columns=columns_of(options),
        row=row_format(options),
        limits=trigger_limits(options),
        push_filters=push_filters,
        look_again_count=_or_default(count(options, "fetchOffset.numRetries", least=0), LOOK_AGAIN_COUNT),
        look_again_ms=_or_default(count(options, "fetchOffset.retryIntervalMs", least=0), LOOK_AGAIN_MS),
        partitions_min=count(options, "minPartitions"),
        records_per_partition_max=count(options, "maxRecordsPerPartition"),
        group_id=options.get("kafka.group.id"),
    )


def _or_default(number: int | None, default: int) -> int:
    return default if number is None else number


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
            return Subscription(assigned=tuple(parsed("assign", text, assignment)))
