"""Looking into a closed journal, and repairing it only when told to."""

import pytest
from tests.unit.journal.stage import DIRECTORY, SMALL, Stage

from hutong.foundation.errors import CorruptData
from hutong.journal.disk import read_file
from hutong.journal.inspect import Inspector, Remedy
from hutong.journal.recovery import SET_ASIDE_SUFFIX


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


def test_every_chunk_and_batch_is_shown_with_its_place() -> None:
    _, inspector, held = closed()
    segments = inspector.segments()
    assert len(segments) > 2
    position, offsets = 0, []
    for segment in segments:
        assert segment.base_position == position
        for scanned in inspector.chunks(segment):
            assert scanned.header.position == position
            position = scanned.header.end
            offsets += [
                batch.base_offset for run, batches in scanned.runs if run.partition_id == 1 for batch in batches
            ]
    assert offsets == [offset for offset, _ in held]


def test_a_sound_or_empty_directory_has_no_problems() -> None:
    _, inspector, _ = closed()
    assert inspector.problems() == []
    assert Inspector(Stage().disk, DIRECTORY / "absent", SMALL).problems() == []


def test_damage_is_named_with_file_and_position_and_looking_changes_nothing() -> None:
    stage, inspector, _ = closed()
    second = inspector.segments()[1]
    stage.disk.flip_bit(second.path, 130)
    stage.disk.flip_bit(DIRECTORY / "checkpoint", 20)
    index = next(name for name in stage.disk.list(DIRECTORY) if name.endswith(".index"))
    stage.disk.flip_bit(DIRECTORY / index, 10)
    before = snapshot(stage)
    problems = inspector.problems()
    assert snapshot(stage) == before
    assert {problem.remedy for problem in problems} >= {Remedy.CUT, Remedy.REBUILD_INDEX, Remedy.REMOVE_CHECKPOINT}
    cut = next(problem for problem in problems if problem.remedy is Remedy.CUT)
    assert (cut.path, cut.position) == (second.path, second.base_position)
    assert str(second.path) in str(cut)
    assert str(second.base_position) in str(cut)


def test_repairs_leave_a_journal_that_opens_and_nothing_is_thrown_away() -> None:
    stage, inspector, held = closed()
    second = inspector.segments()[1]
    whole = sum(segment.file_bytes for segment in inspector.segments())
    stage.disk.flip_bit(second.path, 130)
    rounds = 0
    while problems := inspector.problems():
        rounds += 1
        assert rounds < 10
        assert inspector.repair(problems[0])
    aside = sum(len(content) for name, content in snapshot(stage).items() if name.endswith(SET_ASIDE_SUFFIX))
    assert aside + sum(segment.file_bytes for segment in inspector.segments()) == whole
    stage.open()
    found = stage.read_all(1)
    assert found == held[: len(found)]
    assert found


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
    inspector.repair(problem)
    assert snapshot(stage)[name] == before
    assert inspector.problems() == []


def test_an_index_of_other_data_is_found_out() -> None:
    stage, inspector, _ = closed()
    other = Stage()
    for number in range(60):
        other.append(2 - number % 2, b"v%d" % number)  # the same sizes, the partitions exchanged
        other.settle()
    other.close()
    name = next(name for name in stage.disk.list(DIRECTORY) if name.endswith(".index"))
    stage.disk.create(DIRECTORY / name).write([snapshot(other)[name]], 0)
    (problem,) = inspector.problems()
    assert problem.remedy is Remedy.REBUILD_INDEX


def test_a_missing_segment_cannot_be_repaired() -> None:
    stage, inspector, _ = closed()
    stage.disk.unlink(inspector.segments()[1].path)
    problem = next(problem for problem in inspector.problems() if problem.remedy is Remedy.RESTORE)
    with pytest.raises(CorruptData):
        inspector.repair(problem)
