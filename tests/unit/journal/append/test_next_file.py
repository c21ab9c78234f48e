"""The next segment's file, filled with zeros where flushes are small: what it holds, and what happens half way."""

import errno
from dataclasses import replace
from random import Random

import pytest
from tests.unit.journal.stage import DIRECTORY, SMALL, Stage

from hutong.foundation.errors import StorageError
from hutong.journal.files.segment import PREPARED_NAME, Segment

PIECE = 512
FILLING = replace(SMALL, filling_flush_bytes_max=1000, filling_piece_bytes=PIECE)
PIECES = SMALL.segment_bytes // PIECE
SMALL_VALUE, LARGE_VALUE = b"s" * 50, b"l" * 1300


def write(stage: Stage, value: bytes, *, until: float) -> None:
    """Write one flush after the other until the active segment is full to this share."""
    while stage.journal.position - active(stage).base_position < until * SMALL.segment_bytes:
        stage.append(1, value)
        stage.settle()


def active(stage: Stage) -> Segment:
    segment = stage.journal._parts.segments.active
    assert segment is not None
    return segment


def begun(value: bytes = SMALL_VALUE) -> Stage:
    stage = Stage(FILLING)
    stage.append(1, value)
    stage.settle()
    return stage


def roll(stage: Stage, value: bytes) -> None:
    base = active(stage).base_position
    while active(stage).base_position == base:
        stage.append(1, value)
        stage.settle()


def check_all_is_there(stage: Stage) -> None:
    end = stage.journal.log(1).end_offset
    stage.crash(Random(1))
    stage.open()
    assert len(stage.read_all(1)) == end


def test_the_file_is_filled_piece_by_piece_and_becomes_the_segment() -> None:
    stage = begun()
    write(stage, SMALL_VALUE, until=0.45)
    assert PREPARED_NAME not in stage.disk.list(DIRECTORY)
    write(stage, SMALL_VALUE, until=0.95)
    next_file = stage.journal._parts.next_file
    assert next_file.filled_pieces_total == PIECES
    assert stage.disk.open(DIRECTORY / PREPARED_NAME).size() == SMALL.segment_bytes
    roll(stage, SMALL_VALUE)
    assert active(stage).allocated_bytes == SMALL.segment_bytes
    assert active(stage).stale_bytes == 0
    check_all_is_there(stage)


def test_the_filling_keeps_step_with_the_writer() -> None:
    stage = begun()
    for percent in range(50, 95):
        write(stage, SMALL_VALUE, until=percent / 100)
        written = stage.journal.position - SMALL.segment_bytes / 2
        assert (stage.journal._parts.next_file.filled_pieces_total - 1) * PIECE <= 2.5 * written


def test_large_flushes_fill_none() -> None:
    stage = begun(LARGE_VALUE)
    roll(stage, LARGE_VALUE)
    roll(stage, LARGE_VALUE)
    assert stage.journal._parts.next_file.filled_pieces_total == 0
    check_all_is_there(stage)


def test_a_file_filled_in_part_is_good_as_it_is() -> None:
    stage = begun()
    write(stage, SMALL_VALUE, until=0.6)
    filled = stage.journal._parts.next_file.filled_pieces_total
    assert 0 < filled < PIECES
    roll(stage, LARGE_VALUE)
    assert active(stage).allocated_bytes >= SMALL.preallocate_bytes
    check_all_is_there(stage)


def test_a_segment_that_begins_while_a_worker_fills_the_file_gets_another_one() -> None:
    stage = begun()
    write(stage, SMALL_VALUE, until=0.6)
    next_file = stage.journal._parts.next_file
    assert next_file._prepared is not None
    next_file._fill(next_file._prepared)  # as the next flush does
    while active(stage).base_position == 0:
        stage.append(1, LARGE_VALUE)
        stage.turn()
    stage.steps.waiting.rotate()  # the flush before the piece
    stage.steps.work()
    stage.steps.tell()  # and the one into the new segment is planned
    stage.settle()
    assert active(stage).file is not None
    assert active(stage).allocated_bytes < SMALL.segment_bytes
    prepared, _ = next_file.take()
    assert prepared is not None, "lost"
    assert prepared.file is not active(stage).file
    check_all_is_there(stage)


@pytest.mark.parametrize(("error", "is_kept"), [(errno.ENOSPC, True), (errno.EIO, False)])
def test_a_piece_that_cannot_be_written_ends_the_filling(error: int, *, is_kept: bool) -> None:
    stage = begun()
    write(stage, SMALL_VALUE, until=0.49)
    stage.disk.plan.add("write", error, pattern=f"*{PREPARED_NAME}", times=1)
    write(stage, SMALL_VALUE, until=0.58)
    next_file = stage.journal._parts.next_file
    assert next_file.filled_pieces_total == 1  # tried
    prepared, _ = next_file.take()
    assert (prepared is not None) == is_kept
    if prepared is not None:
        assert prepared.written_bytes == SMALL.segment_bytes, "it would be tried again"
    check_all_is_there(stage)


def test_the_end_of_the_journal_waits_for_one_piece_at_most_and_removes_the_file() -> None:
    stage = begun()
    write(stage, SMALL_VALUE, until=0.6)
    filled = stage.journal._parts.next_file.filled_pieces_total
    stage.close()
    assert stage.journal._parts.next_file.filled_pieces_total <= filled + 1
    assert PREPARED_NAME not in stage.disk.list(DIRECTORY)
    stage.open()
    assert len(stage.read_all(1)) == stage.journal.log(1).end_offset


def test_a_failed_flush_of_the_file_fails_no_journal() -> None:
    stage = begun()
    write(stage, SMALL_VALUE, until=0.49)
    stage.disk.plan.add("flush", errno.EIO, pattern=f"*{PREPARED_NAME}")
    write(stage, SMALL_VALUE, until=0.9)
    roll(stage, SMALL_VALUE)
    assert not isinstance(stage.journal.flusher.failure, StorageError)
