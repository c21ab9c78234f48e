"""Looking into a closed journal, and repairing it only when told to."""

import errno
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from tests.unit.journal.stage import DIRECTORY, SMALL, Stage, records_of

from hutong.foundation.errors import CorruptData, StorageError
from hutong.journal.files.disk import read_file
from hutong.journal.recover.inspect import Inspector, Remedy
from hutong.journal.recover.recovery import SET_ASIDE_SUFFIX, recover
from hutong.journal.recover.repair import repair
from hutong.journal.recover.scan import ScannedChunk


def closed(turns: int = 60) -> tuple[Stage, Inspector, list[tuple[int, bytes]]]:
    stage = Stage()
    for number in range(turns):
        stage.append(1 + number % 2, b"v%d" % number)
        stage.settle()
    held = stage.read_all(1)
    stage.close()
    return stage, Inspector(stage.disk, DIRECTORY, SMALL), held


def snapshot(stage: Stage) -> dict[str, bytes]:
    return {name: bytes(read_file(stage.disk, DIRECTORY / name) or b"") for name in stage.disk.list(DIRECTORY)}


def test_every_chunk_and_run_is_shown_with_its_place() -> None:
    _, inspector, held = closed()
    segments = inspector.segments()
    assert len(segments) > 2
    position = batches = 0
    offsets: list[int] = []
    for segment, scanned in inspector.contents():
        assert isinstance(scanned, ScannedChunk)
        assert scanned.header.position == position >= segment.base_position
        position = scanned.header.end
        for run, _, _ in scanned.runs:
            if run.partition_id == 1:
                offsets += range(run.base_offset, run.end_offset)
                batches += run.batch_count
    assert position == segments[-1].end_position
    assert offsets == [offset for offset, _ in held]
    assert batches == len(held)


def test_a_sound_or_empty_directory_has_no_problems() -> None:
    _, inspector, _ = closed()
    assert inspector.problems() == []
    assert Inspector(Stage().disk, DIRECTORY / "absent", SMALL).problems() == []


def test_every_file_is_listed_with_what_it_says_of_itself() -> None:
    stage, inspector, _ = closed()
    stage.disk.flip_bit(DIRECTORY / "checkpoint", 20)
    for name in ("00000000000000000000.journal.7.set-aside", "next.prepared"):
        stage.disk.create(DIRECTORY / name)
    rows = {row.name: row for row in inspector.files()}
    assert list(rows) == stage.disk.list(DIRECTORY)
    assert rows["checkpoint"].content == "damaged: the checkpoint fails its check"
    assert {row.kind for row in rows.values()} == {"segment", "index", "checkpoint", "set aside", "left over"}
    first, second, *_ = inspector.segments()
    assert rows[first.path.name].content == f"positions 0 to {second.base_position}"
    assert rows["00000000000000000000.index"].content == f"2 logs up to {second.base_position}"


def test_damage_is_named_with_file_and_position_and_looking_changes_nothing() -> None:
    stage, inspector, held = closed()
    _, second, third, *_ = inspector.segments()
    stage.disk.flip_bit(second.path, 130)
    stage.disk.flip_bit(DIRECTORY / "checkpoint", 20)
    stage.disk.flip_bit(third.path.with_suffix(".index"), 10)
    before = snapshot(stage)
    problems = inspector.problems()
    assert snapshot(stage) == before
    assert [problem.remedy for problem in problems] == [Remedy.GIVE_UP, Remedy.REBUILD_INDEX, Remedy.REMOVE_CHECKPOINT]
    given_up = problems[0]
    assert (given_up.path, given_up.position) == (second.path, second.base_position)
    assert f"{second.path} at position {second.base_position}: " in str(given_up)
    ((partition_id, first, end),) = given_up.lost
    assert end == first + 1
    if partition_id == 1:
        assert (first, b"v%d" % (2 * first)) in held


Damage = Callable[[Stage, Inspector], None]


def flip_a_payload(stage: Stage, inspector: Inspector) -> None:
    stage.disk.flip_bit(inspector.segments()[1].path, 130)


def flip_a_header(stage: Stage, inspector: Inspector) -> None:
    stage.disk.flip_bit(inspector.segments()[1].path, 20)


def blank_a_sector(stage: Stage, inspector: Inspector) -> None:
    stage.disk.open(inspector.segments()[1].path).write([bytes(512)], 512)


def cut_a_segment_short(stage: Stage, inspector: Inspector) -> None:
    stage.disk.open(inspector.segments()[1].path).truncate(700)


def lose_a_segment(stage: Stage, inspector: Inspector) -> None:
    stage.disk.unlink(inspector.segments()[1].path)


def cut_the_newest_short(stage: Stage, inspector: Inspector) -> None:
    newest = inspector.segments()[-1]
    stage.disk.open(newest.path).truncate(newest.file_bytes - 30)


def damage_everything(stage: Stage, inspector: Inspector) -> None:
    random = Random(4)
    for segment in inspector.segments():
        for _ in range(3):
            stage.disk.flip_bit(segment.path, random.randrange(segment.file_bytes))


@pytest.mark.parametrize("with_checkpoint", [True, False])
@pytest.mark.parametrize(
    "damage",
    [
        flip_a_payload,
        flip_a_header,
        blank_a_sector,
        cut_a_segment_short,
        lose_a_segment,
        cut_the_newest_short,
        damage_everything,
    ],
)
def test_a_repair_loses_what_it_said_and_nothing_else(damage: Damage, with_checkpoint: bool) -> None:
    stage, inspector, _ = closed()
    held = {log: dict(stage.read_all(log)) for log in (1, 2)} if stage.open() else {}
    stage.close()
    if not with_checkpoint:
        stage.disk.unlink(DIRECTORY / "checkpoint")
    damage(stage, inspector)
    problems = inspector.problems()
    places = [problem for problem in problems if problem.position is not None]
    assert places
    was_refused = any(problem.remedy is Remedy.GIVE_UP for problem in places)
    if was_refused and not with_checkpoint:  # what lies before a checkpoint is not read by a start
        with pytest.raises(CorruptData):
            recover(stage.disk, DIRECTORY, SMALL)
    before = snapshot(stage)
    rounds = 0
    while problems := inspector.problems():
        rounds += 1
        assert rounds < 40
        assert str(problems[0].path) in repair(inspector, problems[0])
    copies = [content for name, content in snapshot(stage).items() if name.endswith(SET_ASIDE_SUFFIX)]
    assert len(copies) >= len(places)
    assert all(any(copy in content for content in before.values()) for copy in copies)

    stage.open()
    said = {(lost.partition_id, offset) for place in places for lost in place.lost for offset in range(*lost[1:])}
    for log, records in held.items():
        kept = dict(kept_of(stage, log))
        assert kept.items() <= records.items(), "a wrong record"
        missing = {(log, offset) for offset in records.keys() - kept.keys()}
        assert missing <= said or not was_refused or not with_checkpoint
        if with_checkpoint:
            assert stage.journal.log(log).end_offset == len(records), "no offset is given twice"
    assert sum(len(kept_of(stage, log)) for log in held) > 0
    new = stage.append(1, b"new")
    stage.settle()
    assert new.base_offset >= max((offset for offset, _ in kept_of(stage, 1)[:-1]), default=0)
    stage.close()
    assert stage.problems() == []
    assert stage.open().recovery.was_clean


def kept_of(stage: Stage, partition_id: int) -> list[tuple[int, bytes]]:
    """The records of a consumer that goes on behind each gap."""
    log, found = stage.journal.log(partition_id), list[tuple[int, bytes]]()
    offset = log.start_offset
    while offset < log.high_watermark:
        records = [record for record in records_of(stage.read(log, offset)) if record[0] >= offset]
        if not records:
            break
        found += records
        offset = records[-1][0] + 1
    return found


def test_what_a_crash_left_is_cut_and_nothing_is_thrown_away() -> None:
    stage = Stage()
    for number in range(3):
        stage.append(1, b"v%d" % number)
        stage.turn()
    stage.settle()
    stage.journal.abort()
    inspector = Inspector(stage.disk, DIRECTORY, SMALL)
    (segment,) = inspector.segments()
    stage.disk.flip_bit(segment.path, 130)
    (problem,) = inspector.problems()
    assert (problem.remedy, problem.position, problem.lost) == (Remedy.CUT, 0, [])
    repair(inspector, problem)
    assert snapshot(stage)[f"{segment.path.name}.0{SET_ASIDE_SUFFIX}"]
    assert inspector.problems() == []


def test_what_is_set_aside_takes_no_other_place() -> None:
    stage, inspector, _ = closed()
    for _ in range(2):
        stage.disk.flip_bit(inspector.segments()[1].path, 20)
        repair(inspector, inspector.problems()[0])
    assert len([name for name in stage.disk.list(DIRECTORY) if name.endswith(SET_ASIDE_SUFFIX)]) == 2


@pytest.mark.parametrize("kind", ["lost", "damaged"])
def test_an_index_is_rebuilt_as_it_was(kind: str) -> None:
    stage, inspector, _ = closed()
    name = next(name for name in stage.disk.list(DIRECTORY) if name.endswith(".index"))
    before = snapshot(stage)[name]
    if kind == "lost":
        stage.disk.unlink(DIRECTORY / name)
    else:
        stage.disk.flip_bit(DIRECTORY / name, 60)
    (problem,) = inspector.problems()
    assert problem.remedy is Remedy.REBUILD_INDEX
    repair(inspector, problem)
    assert snapshot(stage)[name] == before
    assert inspector.problems() == []


def test_an_index_of_other_data_is_found_out() -> None:
    stage, inspector, _ = closed()
    other = Stage()
    for number in range(60):
        other.append(1 + (number % 3 > 0), b"v%d" % number)  # the same sizes, other shares of the partitions
        other.settle()
    other.close()
    name = next(name for name in stage.disk.list(DIRECTORY) if name.endswith(".index"))
    stage.disk.create(DIRECTORY / name).write([snapshot(other)[name]], 0)
    (problem,) = inspector.problems()
    assert problem.remedy is Remedy.REBUILD_INDEX


def test_a_journal_without_any_segment_cannot_be_repaired() -> None:
    stage, inspector, _ = closed()
    for segment in inspector.segments():
        stage.disk.unlink(segment.path)
    problem = next(problem for problem in inspector.problems() if problem.remedy is Remedy.RESTORE)
    with pytest.raises(CorruptData, match="restore it from a copy"):
        repair(inspector, problem)


def test_a_chunk_of_another_version_is_left_alone() -> None:
    stage, inspector, _ = closed()
    second = inspector.segments()[1]
    file = stage.disk.open(second.path)
    file.write([b"\0\0\0\0\0\7"], 4)
    (problem,) = inspector.problems()
    assert problem.remedy is Remedy.RESTORE
    assert "has format 7" in str(problem)
    with pytest.raises(CorruptData):
        repair(inspector, problem)


def spoilt() -> tuple[Stage, Inspector, list[tuple[int, bytes]]]:
    """With damage in the middle, a damaged index and checkpoint; the records of log 1 that are not touched."""
    stage, inspector, held = closed()
    second, third = inspector.segments()[1:3]
    stage.disk.flip_bit(second.path, 20)
    stage.disk.flip_bit(third.path.with_suffix(".index"), 10)
    stage.disk.flip_bit(DIRECTORY / "checkpoint", 20)
    problems = inspector.problems()
    assert len(problems) == 3
    losses = [loss for problem in problems for loss in problem.lost if loss.partition_id == 1]
    lost = {offset for loss in losses for offset in range(loss.first_offset, loss.end_offset)}
    return stage, inspector, [(offset, value) for offset, value in held if offset not in lost]


def repair_all(inspector: Inspector) -> None:
    for _ in range(5):
        for problem in inspector.problems():
            repair(inspector, problem)
    assert inspector.problems() == []


@pytest.mark.parametrize("changes", range(40))
def test_a_repair_that_the_power_interrupts_is_done_again_and_loses_no_more(changes: int) -> None:
    stage, inspector, kept = spoilt()
    stage.disk.changes_until_power_loss = changes
    with suppress(StorageError):
        repair_all(inspector)
    stage.disk.crash(Random(changes))
    repair_all(inspector)
    stage.open()
    found = [record for record in read_past_gaps(stage) if record[1] in {value for _, value in kept}]
    assert found == kept


@pytest.mark.parametrize("operation", ["write", "create", "rename", "flush"])
@pytest.mark.parametrize("after", range(4))
def test_a_repair_on_a_full_disk_ends_and_can_be_done_again(operation: str, after: int) -> None:
    stage, inspector, kept = spoilt()
    stage.disk.plan.add(operation, errno.ENOSPC, after=after)
    with suppress(StorageError):
        repair_all(inspector)
    copies = [name for name in stage.disk.list(DIRECTORY) if name.endswith(SET_ASIDE_SUFFIX)]
    assert len(copies) <= ((operation, after) != ("write", 0)), "no half copy is left"
    stage.disk.plan.heal()
    repair_all(inspector)
    stage.open()
    found = [record for record in read_past_gaps(stage) if record[1] in {value for _, value in kept}]
    assert found == kept


def read_past_gaps(stage: Stage) -> list[tuple[int, bytes]]:
    log = stage.journal.log(1)
    offset, found = log.start_offset, []
    while offset < log.high_watermark:
        records = [record for record in records_of(stage.read(log, offset)) if record[0] >= offset]
        found += records
        offset = records[-1][0] + 1 if records else offset + 1
    return found
