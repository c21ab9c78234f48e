"""Batching that follows the load: no linger, and yet what a chunk and a flush carry grows with what arrives."""

import pytest
from tests.unit.journal.stage import Stage

from hutong.journal.settings import JournalSettings


def load(per_turn: int, turns_per_flush: int, *, partitions: int = 1) -> Stage:
    """So many batches a turn, and so many turns while each flush is under way."""
    stage = Stage(JournalSettings())
    for _ in range(5):
        for _ in range(turns_per_flush):
            for number in range(per_turn):
                stage.append(1 + number % partitions, b"v")
            stage.turn()
        stage.steps.work()
        stage.steps.tell()
    stage.settle()
    return stage


@pytest.mark.parametrize("per_turn", [1, 10, 100, 1000])
def test_a_chunk_carries_what_its_turn_brought(per_turn: int) -> None:
    figures = load(per_turn, 1).journal.figures
    assert figures.batches_per_chunk.count == 5
    assert figures.batches_per_chunk.sum == 5 * per_turn


@pytest.mark.parametrize("turns", [1, 10, 100])
def test_a_flush_carries_the_chunks_that_came_during_the_one_before(turns: int) -> None:
    stage = load(1, turns)
    chunks = stage.journal.figures.chunks_per_flush
    assert chunks.sum == 5 * turns == stage.journal.figures.bytes_per_chunk.count
    assert chunks.count == stage.journal.flusher.flushes_total <= 6
    assert chunks.quantile(0.9) >= turns


def test_a_quiet_journal_keeps_nobody_waiting_for_company() -> None:
    stage = Stage()
    for _ in range(3):
        stage.append(1, b"v")
        stage.turn()
        assert len(stage.steps.waiting) == 1, "a flush began in the turn that brought the batch, with no timer between"
        stage.settle()
    assert stage.journal.figures.chunks_per_flush.quantile(1) == 1


def test_one_write_and_one_fsync_for_all_partitions() -> None:
    stage = load(100, 1, partitions=100)
    assert len(stage.journal.log_ids()) == 100
    flushes, writes = stage.disk.flushes_total, stage.disk.writes_total
    for partition_id in range(1, 101):
        stage.append(partition_id, b"v")
    stage.turn()
    stage.steps.work()
    assert (stage.disk.flushes_total - flushes, stage.disk.writes_total - writes) == (1, 1)


def test_the_times_of_the_stages_follow_one_another() -> None:
    stage = Stage()
    stage.append(1, b"v")
    stage.clock.advance(1)
    stage.turn()  # sealed one millisecond after it came
    stage.clock.advance(20)
    stage.steps.work()  # a worker began 20 ms later; a simulated disk takes no time
    stage.clock.advance(300)
    stage.steps.tell()
    figures = stage.journal.figures
    assert figures.turn_us.sum == 1_000
    assert figures.queue_us.sum == 20_000
    assert (figures.write_us.count, figures.fsync_us.count) == (1, 1)
    assert figures.write_us.sum == figures.fsync_us.sum == 0
    assert figures.safe_us.sum == 21_000
    assert figures.release_us.sum == 300_000


def test_the_writer_keeps_the_attributes_that_share_their_keys() -> None:
    """With 30 CPython 3.11 gives each instance a dictionary of its own: measured, 3 % of an append's instructions."""
    assert len(vars(Stage().journal.writer)) < 30
