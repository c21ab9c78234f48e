"""Checks of a client's batch against its topic: sound header and records, times that it takes, keys where compacted.

Strategy: header and CRC first, then one walk over the records (`wire/kafka/batch/record_contents.py`), which gives all
that the topic's rules need. The rules are those of Kafka's LogValidator, with its error codes:

    INVALID_RECORD (87)      records that are malformed, fewer or more than the header says, or with forged offsets;
                             a record without a key in a compacted topic, or without a schema where one is demanded
    INVALID_TIMESTAMP (32)   a record outside the topic's bounds; a batch that says LogAppendTime for such a topic
    MESSAGE_TOO_LARGE (10)   records that unpack to more than this node takes; Kafka has no such bound

Like Kafka, a greatest timestamp in the header that is not that of the records is corrected, not refused. Seen of Kafka
4.3: it takes forged offset deltas of plain batches, and answers UNKNOWN_SERVER_ERROR for those of compressed ones and
for what cannot be unpacked; here that is INVALID_RECORD. Of a batch that is refused at most RECORDS_NAMED_MAX records
are named (KIP-467); Kafka names them all.

Pure, so that a worker may do it. Knows nothing of requests, nor of what producers did before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hutong.foundation.errors import LimitExceeded, ProtocolError, Refused, UsageError
from hutong.wire.kafka.batch.record_contents import (
    examine_batch,
    examine_records,
    unpack_in_place,
    with_max_timestamp,
)
from hutong.wire.kafka.batch.record_slices import DELETE_HORIZON
from hutong.wire.kafka.batch.record_walk import INT64_MAX, INT64_MIN, RECORDS_NAMED_MAX
from hutong.wire.kafka.batch.records import HEADER_BYTES, LOG_APPEND_TIME, parse_batch_header, validate_batch_set
from hutong.wire.kafka.batch.schema_ids import schema_ids_of
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hutong.broker.topics.schema_demands import SchemaDemand
    from hutong.broker.topics.topic_config import TopicConfig
    from hutong.wire.kafka.batch.record_walk import RecordContents
    from hutong.wire.kafka.batch.records import BatchHeader

LOOP_RECORDS_MAX: Final = 500  # of a topic that demands schemas: 0.5 ms
SCHEMA_IDS_MAX: Final = 1_000  # of one batch
UNBOUNDED_BYTES: Final = 1 << 62
"""For records whose size the caller has bounded."""


class RefusedRecords(Refused):
    """A batch refused for some of its records; `indexes` are their places in the batch, the first of them."""

    def __init__(self, code: ErrorCode, message: str, indexes: Sequence[int]) -> None:
        super().__init__(code, message)
        self.indexes = indexes


class BatchRules(NamedTuple):
    """A topic's and a request's rules for a batch, at one time."""

    batch_bytes_max: int
    zstd_allowed: bool
    is_compacted: bool
    is_log_append_time: bool
    earliest_ms: int
    latest_ms: int
    schemas: tuple[SchemaDemand, ...] = ()


class CheckedBatch(NamedTuple):
    """A sound batch: `records` is what to append, a copy where its header was corrected.

    `schema_ids` has the ids that records name, where the topic demands schemas, with the first record of each.
    """

    header: BatchHeader
    records: memoryview
    schema_ids: tuple[tuple[SchemaDemand, Mapping[int, int]], ...] = ()


def rules_for(config: TopicConfig, now_ms: int, *, zstd_allowed: bool = True) -> BatchRules:
    """The rules of a topic at this time of day."""
    earliest_ms, latest_ms = INT64_MIN, INT64_MAX
    if not config.log_append_time:
        earliest_ms, latest_ms = timestamp_bounds(config, now_ms)
        latest_ms = min(latest_ms, INT64_MAX)  # a bound of 64 bits away from now
    return BatchRules(
        config.max_message_bytes,
        zstd_allowed,
        config.compacted,
        config.log_append_time,
        earliest_ms,
        latest_ms,
        config.schemas,
    )


def timestamp_bounds(config: TopicConfig, now_ms: int) -> tuple[int, int]:
    """The earliest and the latest timestamp that the topic accepts (message.timestamp.before|after.max.ms)."""
    return now_ms - config.timestamp_before_max_ms, now_ms + config.timestamp_after_max_ms


def check_batch(records: memoryview | None, rules: BatchRules, unpacked_bytes_max: int) -> CheckedBatch:
    """Check the records field of one partition. Raises Refused, for too large ones with MESSAGE_TOO_LARGE."""
    header = check_header(records, rules)
    assert records is not None, "null records are refused"
    try:
        return check_contents(header, records, rules, unpacked_bytes_max)
    except LimitExceeded as error:
        message = f"The records unpack to more than {error.maximum} bytes; send smaller batches."
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, message) from error


def check_header(records: memoryview | None, rules: BatchRules) -> BatchHeader:
    """Check what the header says, and the CRC. Raises Refused."""
    header = validate_batch_set(records, rules.batch_bytes_max, zstd_allowed=rules.zstd_allowed)
    # KIP-32: the broker alone stamps records with the time of the append.
    if rules.is_log_append_time and header.attributes & LOG_APPEND_TIME:
        message = "Producers may not say that the log has stamped their records."
        raise RefusedRecords(ErrorCode.INVALID_TIMESTAMP, message, range(min(header.record_count, RECORDS_NAMED_MAX)))
    # KIP-534: the cleaner alone sets the time from which tombstones may go.
    if rules.is_compacted and header.attributes & DELETE_HORIZON:
        raise Refused(ErrorCode.INVALID_RECORD, "Clients may not say when tombstones go.")
    return header


def check_records(
    header: BatchHeader, records: memoryview, rules: BatchRules, unpacked_bytes_max: int = UNBOUNDED_BYTES
) -> CheckedBatch:
    """Check the records of a batch whose header is sound. Raises Refused, and LimitExceeded for too large ones."""
    if not header.attributes and len(records) <= unpacked_bytes_max:  # nearly every one: half a microsecond less
        try:
            greatest_ms, keyless, untimely = examine_records(
                records,
                HEADER_BYTES,
                header.record_count,
                header.base_timestamp_ms,
                rules.earliest_ms,
                rules.latest_ms,
            )
        except ProtocolError as error:
            raise Refused(ErrorCode.INVALID_RECORD, f"The records cannot be read: {error}.") from error
        if not untimely and greatest_ms == header.max_timestamp_ms and not (keyless and rules.is_compacted):
            return CheckedBatch(header, records)
    has_own_times = not header.attributes & LOG_APPEND_TIME
    earliest_ms, latest_ms = (rules.earliest_ms, rules.latest_ms) if has_own_times else (INT64_MIN, INT64_MAX)
    try:
        contents = examine_batch(header, records, unpacked_bytes_max, earliest_ms, latest_ms)
    except ProtocolError as error:
        raise Refused(ErrorCode.INVALID_RECORD, f"The records cannot be read: {error}.") from error
    except UsageError as error:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from error
    # Compaction keeps the last record of each key, so a record without one would have no meaning there.
    if rules.is_compacted and contents.keyless:
        message = "A compacted topic takes no record without a key."
        raise RefusedRecords(ErrorCode.INVALID_RECORD, message, contents.keyless)
    if not has_own_times:
        return _checked_stamped(header, records, rules)
    return _checked_times(header, records, contents)


def check_contents(
    header: BatchHeader, records: memoryview, rules: BatchRules, unpacked_bytes_max: int, *, is_on_loop: bool = False
) -> CheckedBatch:
    """Check the records, and find the ids of schemas where the topic demands some. Raises as `check_records`."""
    # Walked in Python: what a loop may examine otherwise would take it 10 ms.
    if rules.schemas and is_on_loop and header.record_count > LOOP_RECORDS_MAX:
        raise LimitExceeded("LOOP_RECORDS_MAX", LOOP_RECORDS_MAX)
    checked = check_records(header, records, rules, unpacked_bytes_max)
    return _with_schema_ids(checked, rules.schemas, unpacked_bytes_max) if rules.schemas else checked


def _with_schema_ids(checked: CheckedBatch, demands: Sequence[SchemaDemand], unpacked_bytes_max: int) -> CheckedBatch:
    header, records, _ = checked
    data, start = unpack_in_place(header, records, unpacked_bytes_max)
    found = []
    for demand in demands:
        first, without = schema_ids_of(data, start, header.record_count, of_keys=demand.of_keys)
        if without:
            message = f"The topic takes no {demand.field} without the id of a schema, which a serializer puts first."
            raise RefusedRecords(ErrorCode.INVALID_RECORD, message, without)
        if len(first) > SCHEMA_IDS_MAX:
            message = f"A batch of this topic may name {SCHEMA_IDS_MAX} schemas, and no more."
            raise RefusedRecords(ErrorCode.INVALID_RECORD, message, [*first.values()][SCHEMA_IDS_MAX:][:1])
        found.append((demand, first))
    return checked._replace(schema_ids=tuple(found))


def _checked_times(header: BatchHeader, records: memoryview, contents: RecordContents) -> CheckedBatch:
    if contents.untimely:
        message = "A record's timestamp is outside the range the topic accepts."
        raise RefusedRecords(ErrorCode.INVALID_TIMESTAMP, message, contents.untimely)
    # Kafka sets the true greatest timestamp when it validates a batch: look-ups by time trust the header.
    if contents.greatest_timestamp_ms == header.max_timestamp_ms:
        return CheckedBatch(header, records)
    corrected = with_max_timestamp(records, contents.greatest_timestamp_ms)
    return CheckedBatch(parse_batch_header(corrected), memoryview(corrected))


def _checked_stamped(header: BatchHeader, records: memoryview, rules: BatchRules) -> CheckedBatch:
    """All records of a batch that says LogAppendTime have the time in its header."""
    if not rules.earliest_ms <= header.max_timestamp_ms <= rules.latest_ms:
        message = "The batch's timestamp is outside the range the topic accepts."
        raise RefusedRecords(ErrorCode.INVALID_TIMESTAMP, message, range(min(header.record_count, RECORDS_NAMED_MAX)))
    return CheckedBatch(header, records)
