"""The power goes at every single change that a cleaning makes to the disk: what a start finds is old or new, and whole.

Twice over one journal, so that cleaned segments are cleaned again; with several passes, merged neighbours, tombstones,
a log that is not compacted beside, and with and without the checkpoint, which a start can do without.
"""

from dataclasses import replace
from random import Random

import pytest
from tests.unit.journal.keyed import Held, clean, newest, put, read_records, roll
from tests.unit.journal.stage import DIRECTORY, SMALL, Stage

from hutong.journal.clean.compaction import CompactionPolicy

POLICY = CompactionPolicy(min_dirty_ratio=0.0, delete_retention_ms=1_000)
SETTINGS = replace(SMALL, clean_keys_max=8)
COMPACTED, PLAIN = 1, 2
CHANGES_MAX = 400


def write(stage: Stage, round_number: int) -> None:
    """Overwrites and deletions over several segments, some of them small."""
    for number in range(24):
        key = b"key-%d" % (number % 9)
        value = None if number % 7 == round_number else b"%d.%d" % (round_number, number) + b"." * 90
        put(stage, COMPACTED, (key, value), (b"other-%d" % (number % 2), b"%d" % number))
        if number % 5 == 0:
            put(stage, PLAIN, (None, b"%d.%d" % (round_number, number)))
            roll(stage)
    stage.advance(2_000)
    roll(stage)


def prepared(rounds: int) -> Stage:
    """A journal with so many rounds written, all but the last one cleaned."""
    stage = Stage(SETTINGS)
    for number in range(rounds):
        if number:
            clean(stage, COMPACTED, policy=POLICY)
        write(stage, number)
    return stage


def live(records: list[Held]) -> dict[bytes | None, bytes]:
    """Without what was deleted: a tombstone may be there still or no more."""
    return {key: value for key, value in newest(records).items() if value is not None}


def check(stage: Stage, before: list[Held], plain: list[Held], end_offset: int) -> None:
    found = read_records(stage, COMPACTED)
    assert live(found) == live(before), "the newest values are not what they were"
    assert set(found) <= set(before), "a record was changed or moved"
    assert [record.offset for record in found] == sorted({record.offset for record in found})
    assert read_records(stage, PLAIN) == plain
    log = stage.journal.log(COMPACTED)
    assert (log.start_offset, log.end_offset) == (0, end_offset)


@pytest.mark.parametrize("keeps_checkpoint", [True, False])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_the_power_may_go_at_any_change(rounds: int, keeps_checkpoint: bool) -> None:
    for changes in range(CHANGES_MAX):
        stage = prepared(rounds)
        before, plain = read_records(stage, COMPACTED), read_records(stage, PLAIN)
        end_offset = stage.journal.log(COMPACTED).end_offset
        stage.disk.changes_until_power_loss = changes
        clean(stage, COMPACTED, policy=POLICY)
        is_over = stage.disk.changes_until_power_loss > 0
        stage.crash(Random(changes))
        if not keeps_checkpoint:
            stage.disk.unlink(DIRECTORY / "checkpoint")
        stage.open()
        check(stage, before, plain, end_offset)
        stage.journal.checkpointer.begin_checkpoint()
        stage.settle()
        assert stage.problems() == []
        assert not [name for name in stage.disk.list(DIRECTORY) if name.endswith(".tmp")]
        clean(stage, COMPACTED, policy=POLICY)
        check(stage, before, plain, end_offset)
        assert len(read_records(stage, COMPACTED)) <= 11 + 9 * rounds
        if is_over:
            return
    pytest.fail(f"a cleaning with more than {CHANGES_MAX} changes")
