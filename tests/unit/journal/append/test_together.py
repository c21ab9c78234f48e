"""Batches of two logs that are kept or lost together."""

from random import Random

import pytest
from tests.unit.journal.stage import Stage

from hutong.wire.kafka.batch.records import Record, build_batch

SECOND = b"decided"


def size_of(value: bytes) -> int:
    return len(build_batch([Record(value=value)]))


def crashed(seed: int, begins_together: bool) -> tuple[int, int, int]:
    """How many pairs were appended, and what a crash has left of either half.

    The disk keeps any part of what was not flushed. The first batch of a pair is larger than a chunk now and then.
    """
    random = Random(seed)
    stage = Stage()
    pairs = random.randrange(1, 12)
    for _ in range(pairs):
        first = bytes(random.choice([1, 100, 400, 900, 1_500]))
        stage.append(3, bytes(random.choice([1, 100, 300])))
        if begins_together:
            stage.journal.log(1).begin_together(size_of(first) + size_of(SECOND))
        stage.append(1, first)
        stage.append(2, SECOND)
        if random.random() < 0.6:
            stage.turn()
        if random.random() < 0.4:
            stage.steps.work()
            stage.steps.tell()
    stage.turn()
    stage.crash(random)
    stage.open()
    return pairs, stage.journal.log(1).end_offset, stage.journal.log(2).end_offset


@pytest.mark.parametrize("seed", range(40))
def test_a_crash_takes_both_or_none(seed: int) -> None:
    pairs, first, second = crashed(seed, begins_together=True)
    assert first == second <= pairs


def test_without_being_begun_together_a_crash_parts_them() -> None:
    outcomes = [crashed(seed, begins_together=False) for seed in range(40)]
    assert any(first != second for _, first, second in outcomes)


def test_what_follows_has_chunks_of_its_own_again() -> None:
    stage = Stage()
    first = bytes(1_500)
    stage.journal.log(1).begin_together(size_of(first) + size_of(SECOND))
    stage.append(1, first)
    stage.append(2, SECOND)
    stage.append(3, b"after")
    stage.turn()
    assert stage.journal.figures.batches_per_chunk.count == 2
    stage.settle()
    assert stage.read_all(1) == [(0, first)]
    assert stage.read_all(2) == [(0, SECOND)]
