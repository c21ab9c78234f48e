"""Where a leader epoch ended in one log, found in every place where its batches can be."""

from dataclasses import replace

import pytest
from tests.unit.journal.keyed import clean, put
from tests.unit.journal.stage import SMALL, Stage

from hutong.foundation.errors import HutongError
from hutong.journal.log import EpochEnd


def ends_of(stage: Stage, log: int, epochs: range) -> list[EpochEnd]:
    found: list[EpochEnd | HutongError] = []
    for epoch in epochs:
        stage.journal.log(log).end_of_epoch(epoch, found.append)
        stage.settle()
    ends = [end for end in found if not isinstance(end, HutongError)]
    assert len(ends) == len(epochs), found
    return ends


def write(stage: Stage, log: int, count: int) -> None:
    for number in range(count):
        stage.append(log, b"%d" % number)
        stage.settle()


def test_one_epoch_ends_at_the_high_watermark() -> None:
    stage = Stage()
    stage.journal.lead(3, 1)
    write(stage, 1, 5)
    assert ends_of(stage, 1, range(2, 5)) == [(-1, 0), (3, 5), (3, 5)]


@pytest.mark.parametrize("counts", [(3, 2, 4), (1, 1, 1), (60, 5, 60), (0, 3, 0), (3, 0, 2), (150, 150, 1)])
@pytest.mark.parametrize("is_opened_anew", [False, True])
def test_each_epoch_ends_where_a_later_leader_wrote_first(counts: tuple[int, ...], is_opened_anew: bool) -> None:
    stage = Stage(replace(SMALL, segment_bytes=8192))
    expected, total = [], 0
    for number, count in enumerate(counts):
        stage.journal.lead(2 * number + 1, number)
        write(stage, 2, 3)  # another log, in the same chunks and segments
        write(stage, 1, count)
        write(stage, 2, 3)
        total += count
        expected += [(2 * number + 1, total)] * 2
    if is_opened_anew:
        stage.close()
        stage.open()
    assert ends_of(stage, 1, range(1, 2 * len(counts) + 1)) == expected


def test_what_retention_has_taken_ended_at_the_start_at_the_latest() -> None:
    stage = Stage()
    for epoch in (1, 2):
        stage.journal.lead(epoch, 0)
        write(stage, 1, 10)
    stage.journal.log(1).delete_before(15)
    stage.settle()
    assert ends_of(stage, 1, range(1, 3)) == [(1, 15), (2, 20)]


def test_in_a_cleaned_segment_chunks_tell_their_epoch_and_positions_do_not() -> None:
    stage = Stage()
    for epoch in (1, 2, 3):
        stage.journal.lead(epoch, 0)
        for number in range(12):
            put(stage, 1, (b"key-%d-%d" % (epoch, number % 3), b"v" * 40))
        stage.settle()
    stage.journal.writer.roll()
    stage.settle()
    clean(stage, 1)
    assert stage.journal.cleaner.cleanings_total == 1
    # What an epoch wrote last is gone or not; its end is at or before the first batch of the next that is left.
    (_, first), (_, second), (_, third) = ends_of(stage, 1, range(1, 4))
    assert 12 <= first <= 21
    assert 24 <= second <= 33
    assert third == 36
