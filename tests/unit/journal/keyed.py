"""Keyed records on a stage: a client that remembers what it wrote, and a reader as a consumer is one."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.unit.journal.stage import Stage

from hutong.foundation.errors import HutongError
from hutong.journal.clean.compaction import CompactionPolicy
from hutong.journal.clean.retention import RetentionPolicy
from hutong.journal.log import DiskRead
from hutong.wire.kafka.batch.records import BatchHeader, Record, iterate_batches, iterate_records

EAGER = CompactionPolicy(min_dirty_ratio=0.0)


class Held(NamedTuple):
    """One record as a consumer got it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def keyed(timestamp_ms: int, *pairs: tuple[bytes | None, bytes | None]) -> list[Record]:
    return [Record(timestamp_ms=timestamp_ms, key=key, value=value) for key, value in pairs]


def put(stage: Stage, log: int, *pairs: tuple[bytes | None, bytes | None], **batch: Any) -> int:
    """Append one batch of keys and values, flushed; returns its base offset."""
    append = stage.append_records(log, keyed(stage.clock.wall_ms(), *pairs), **batch)
    stage.settle()
    return append.base_offset


def roll(stage: Stage) -> None:
    """Close the active segment."""
    stage.journal.roll_if_full(dict.fromkeys(stage.journal.log_ids(), RetentionPolicy(roll_bytes=0)))
    stage.settle()


def clean(stage: Stage, *logs: int, policy: CompactionPolicy = EAGER) -> None:
    stage.journal.enforce_compaction(dict.fromkeys(logs, policy))
    stage.settle()


def read_batches(stage: Stage, log_id: int, max_bytes: int = 1 << 20) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every visible batch, read as a consumer does: each read goes on behind the last batch that came."""
    log = stage.journal.log(log_id)
    offset = log.start_offset
    while offset < log.high_watermark:
        found = log.read(offset, max_bytes)
        if isinstance(found, DiskRead):
            outcomes: list[list[memoryview] | HutongError] = []
            log.read_from_disk(found, outcomes.append)
            stage.settle()
            (outcome,) = outcomes
            assert not isinstance(outcome, HutongError), outcome
            buffers = outcome
        else:
            buffers = found.buffers
        assert buffers, f"nothing at offset {offset}, below the high watermark {log.high_watermark}"
        for view in buffers:
            for header, batch in iterate_batches(view):
                assert header.last_offset >= offset, "a batch came that the reader has passed"
                offset = header.last_offset + 1
                yield header, batch


def read_records(stage: Stage, log_id: int, max_bytes: int = 1 << 20) -> list[Held]:
    """Every visible record from the log's start on."""
    start_offset = stage.journal.log(log_id).start_offset
    return [
        Held(record.offset, record.timestamp_ms, record.key, record.value)
        for _, batch in read_batches(stage, log_id, max_bytes)
        for record in iterate_records(batch)
        if record.offset >= start_offset
    ]


def newest(records: list[Held]) -> dict[bytes | None, bytes | None]:
    """The map that the records come to."""
    return {record.key: record.value for record in records}
