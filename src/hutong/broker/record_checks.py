"""What a topic asks of a batch besides that it is sound: times that it accepts, and keys where it is compacted.

Strategy: the header answers for nearly every batch. Only where it does not are records looked at one by one: for their
keys in a compacted topic, and to say which of them have a time that is refused (KIP-467). Of a batch that is refused
at most RECORD_ERRORS_MAX records are named.

Knows nothing of requests, nor of what producers did before.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import LimitExceeded, ProtocolError, Refused, UsageError
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.record_slices import DELETE_HORIZON, records_without_key, unpack_records
from hutong.wire.kafka.records import iterate_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hutong.broker.partition import Partition
    from hutong.broker.topic_config import TopicConfig
    from hutong.foundation.clock import Clock
    from hutong.wire.kafka.records import BatchHeader

BATCH_BYTES_MAX: Final = 32 * 1024 * 1024  # unpacked, where records are looked at
RECORD_ERRORS_MAX: Final = 100


class RefusedRecords(Refused):
    """A batch refused for some of its records; `indexes` are their places in the batch, the first of them."""

    def __init__(self, code: ErrorCode, message: str, indexes: Sequence[int]) -> None:
        super().__init__(code, message)
        self.indexes = indexes


def check_times(partition: Partition, header: BatchHeader, batch: memoryview, clock: Clock) -> None:
    """Raises RefusedRecords where a record's time is outside the topic's bounds."""
    config = partition.config
    if config.log_append_time:
        return
    earliest_ms, latest_ms = timestamp_bounds(config, clock)
    if not earliest_ms <= header.max_timestamp_ms <= latest_ms:
        found = _outside(batch, earliest_ms, latest_ms)
        message = "A record's timestamp is outside the range the topic accepts."
        raise RefusedRecords(ErrorCode.INVALID_TIMESTAMP, message, found)


def check_keys(header: BatchHeader, batch: memoryview) -> None:
    """What a compacted topic asks of a batch: every record has a key. Raises Refused, as Kafka does."""
    if header.attributes & DELETE_HORIZON:
        raise Refused(ErrorCode.INVALID_RECORD, "Clients may not say when tombstones go.")
    try:
        data = unpack_records(header, batch, BATCH_BYTES_MAX)
        keyless = list(islice(records_without_key(data, header.record_count), RECORD_ERRORS_MAX))
    except ProtocolError as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, f"The records cannot be read: {error}.") from error
    except LimitExceeded as error:
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, f"The records unpack to too much: {error}.") from error
    except UsageError as error:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from error
    if keyless:
        raise RefusedRecords(ErrorCode.INVALID_RECORD, "A compacted topic takes no record without a key.", keyless)


def timestamp_bounds(config: TopicConfig, clock: Clock) -> tuple[int, int]:
    """The earliest and the latest timestamp that the topic accepts now (message.timestamp.before|after.max.ms)."""
    now_ms = clock.wall_ms()
    return now_ms - config.timestamp_before_max_ms, now_ms + config.timestamp_after_max_ms


def _outside(batch: memoryview, earliest_ms: int, latest_ms: int) -> list[int]:
    """Which records are to blame; none can be named where they cannot be read."""
    try:
        outside = (
            index
            for index, record in enumerate(iterate_records(batch, BATCH_BYTES_MAX))
            if not earliest_ms <= record.timestamp_ms <= latest_ms
        )
        return list(islice(outside, RECORD_ERRORS_MAX))
    except (ProtocolError, LimitExceeded, UsageError):
        return []
