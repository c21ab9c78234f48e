"""Cleaning a log that has transactions: what was aborted goes, markers stay as long as they say something."""

from random import Random

import pytest
from tests.unit.journal.keyed import clean, keyed, put, read_batches, read_records, roll
from tests.unit.journal.stage import DIRECTORY, Stage

from hutong.journal.clean.compaction import DAY_MS, CompactionPolicy
from hutong.journal.format.clean_offsets import CLEAN_OFFSETS_NAME
from hutong.wire.kafka.batch.control_records import parse_marker
from hutong.wire.kafka.batch.records import TRANSACTIONAL

Pair = tuple[bytes | None, bytes | None]


class Writers:
    """Transactional producers of log 1."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.sequences: dict[int, int] = {}

    def put(self, producer_id: int, *pairs: Pair) -> int:
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + len(pairs)
        append = self.stage.append_records(
            1,
            keyed(self.stage.clock.wall_ms(), *pairs),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            attributes=TRANSACTIONAL,
        )
        self.stage.settle()
        return append.base_offset

    def end(self, producer_id: int, *, commit: bool) -> None:
        self.stage.journal.log(1).append_marker(
            producer_id, 0, is_commit=commit, coordinator_epoch=0, then=lambda _: None
        )
        self.stage.settle()


def forget_producers(stage: Stage) -> None:
    """Nobody repeats anything any more, so no header stays for that."""
    producers = stage.journal.log(1).producers
    assert producers is not None
    for producer_id in list(producers.states()):
        producers.record_marker(producer_id, 1, 0, stage.clock.wall_ms())


def markers_of(stage: Stage) -> list[int]:
    return [header.base_offset for header, batch in read_batches(stage, 1) if parse_marker(batch) is not None]


def committed(stage: Stage) -> dict[bytes | None, bytes | None]:
    """The records of a committed reader that knows the log alone."""
    log = stage.journal.log(1)
    aborted = log.aborted_between(0, log.last_stable_offset)
    aborting: set[int] = set()
    seen = {}
    records = {record.offset: record for record in read_records(stage, 1)}
    for header, batch in read_batches(stage, 1):
        if header.last_offset >= log.last_stable_offset:
            break
        aborting |= {producer_id for producer_id, first in aborted if first <= header.last_offset}
        aborted = [entry for entry in aborted if entry[1] > header.last_offset]
        marker = parse_marker(batch) if header.is_control else None
        if marker is not None and not marker.is_commit:
            aborting.discard(header.producer_id)
        if not header.is_control and not (header.is_transactional and header.producer_id in aborting):
            for offset in range(header.base_offset, header.last_offset + 1):
                if offset in records:
                    seen[records[offset].key] = records[offset].value
    return seen


def test_what_was_aborted_hides_nothing_and_goes() -> None:
    stage = Stage()
    writers = Writers(stage)
    put(stage, 1, (b"a", b"1"), (b"b", b"1"))
    writers.put(7, (b"a", b"aborted"), (b"c", b"aborted"))
    writers.end(7, commit=False)
    writers.put(7, (b"b", b"2"))
    writers.end(7, commit=True)
    put(stage, 1, (b"z", b"last"))
    before = committed(stage)
    assert before == {b"a": b"1", b"b": b"2", b"z": b"last"}
    roll(stage)
    clean(stage, 1)
    values = {record.value for record in read_records(stage, 1)}
    assert b"aborted" not in values
    assert committed(stage) == before
    assert stage.journal.log(1).aborted_between(0, 99) == [], "of which nothing is left, nothing is told"
    stage.crash(Random(1))
    stage.open()
    assert committed(stage) == before
    assert stage.problems() == []


def test_an_open_transaction_keeps_what_lies_behind_it_from_being_cleaned() -> None:
    stage = Stage()
    writers = Writers(stage)
    put(stage, 1, (b"a", b"1"))
    roll(stage)
    writers.put(7, (b"b", b"open"))
    put(stage, 1, (b"a", b"2"))
    put(stage, 1, (b"a", b"3"))
    roll(stage)
    clean(stage, 1)
    clean(stage, 1)
    assert [record.value for record in read_records(stage, 1)] == [b"1", b"open", b"2", b"3"]
    writers.end(7, commit=False)
    put(stage, 1, (b"z", b"last"))
    roll(stage)
    clean(stage, 1)
    assert committed(stage) == {b"a": b"3", b"z": b"last"}
    assert b"open" not in {record.value for record in read_records(stage, 1)}


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_goes_some_time_after_what_it_ended(commit: bool) -> None:
    stage = Stage()
    writers = Writers(stage)

    def more(number: int) -> None:
        put(stage, 1, (b"a", b"%d" % number))
        roll(stage)
        clean(stage, 1, policy=CompactionPolicy(min_dirty_ratio=0.0, delete_retention_ms=DAY_MS))

    writers.put(7, (b"a", b"transactional"))
    writers.end(7, commit=commit)
    forget_producers(stage)
    more(1)
    assert markers_of(stage) == [1], "it was met with its data"
    more(2)
    assert markers_of(stage) == [1], "its time begins to run"
    more(3)
    assert markers_of(stage) == [1]
    stage.advance(DAY_MS + 1)
    more(4)
    assert markers_of(stage) == []
    assert committed(stage) == {b"a": b"4"}
    stage.crash(Random(1))
    stage.disk.unlink(DIRECTORY / "checkpoint")
    stage.open()
    assert committed(stage) == {b"a": b"4"}
    assert stage.journal.log(1).last_stable_offset == stage.journal.log(1).high_watermark


def test_a_header_that_stays_for_its_producer_keeps_its_marker() -> None:
    """Without it, a start that reads everything would find a transaction that never ends."""
    stage = Stage()
    writers = Writers(stage)
    writers.put(7, (b"a", b"aborted"))
    writers.end(7, commit=False)
    for number in range(4):
        put(stage, 1, (b"a", b"%d" % number))
        roll(stage)
        clean(stage, 1, policy=CompactionPolicy(min_dirty_ratio=0.0, delete_retention_ms=0))
    assert markers_of(stage) == [1]
    assert next(header.record_count for header, _ in read_batches(stage, 1)) == 0
    assert b"aborted" not in {record.value for record in read_records(stage, 1)}
    stage.crash(Random(1))
    stage.disk.unlink(DIRECTORY / "checkpoint")
    log = stage.open().log(1)
    assert log.open_transaction(7) is None
    assert log.last_stable_offset == log.high_watermark


@pytest.mark.parametrize("loses_clean_offsets", [False, True])
def test_a_crash_names_no_transaction_whose_marker_is_gone(loses_clean_offsets: bool) -> None:
    """Its reader would wait for the marker, and leave out all that the producer has committed since."""
    stage = Stage()
    writers = Writers(stage)

    def crash() -> None:
        stage.crash(Random(1))
        if loses_clean_offsets:
            stage.disk.unlink(DIRECTORY / CLEAN_OFFSETS_NAME)
        stage.open()

    writers.put(7, (b"a", b"aborted"))
    writers.end(7, commit=False)
    writers.put(7, (b"b", b"committed"))
    writers.end(7, commit=True)
    forget_producers(stage)
    for number in range(6):
        put(stage, 1, (b"a", b"%d" % number))
        roll(stage)  # with a checkpoint, which says what is known before the cleaning
        clean(stage, 1, policy=CompactionPolicy(min_dirty_ratio=0.0, delete_retention_ms=DAY_MS))
        stage.advance(DAY_MS + 1)
        crash()
        assert committed(stage) == {b"a": b"%d" % number, b"b": b"committed"}
