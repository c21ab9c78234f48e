"""Rot anywhere in a journal's files: a start raises what the storage family has or gives nothing but true records, and
a repair always ends in a journal that opens, without a wrong record and without an offset that is given twice.
"""

import contextlib
import os
from pathlib import Path

import hypothesis
from hypothesis import strategies as st
from tests.unit.journal.stage import DIRECTORY, SMALL, Stage, records_of

from hutong.foundation.errors import CorruptData, StorageError
from hutong.journal.files.disk import read_file
from hutong.journal.log import PartitionLog
from hutong.journal.recover.inspect import Inspector, Remedy
from hutong.journal.recover.repair import repair
from hutong.testing.disks.simulated import SimDisk

PARTITIONS = (1, 2, 3)
TURNS = 40
REPAIRS_MAX = 200
EXAMPLES = int(os.environ.get("TEST_CRASH_EXAMPLES", "80"))

Files = dict[str, bytes]
Records = dict[int, dict[int, bytes]]


def written(*, is_clean: bool) -> tuple[Files, Records]:
    """The files of a journal with several segments, some chunks with several runs, and what it holds."""
    stage = Stage()
    for turn in range(TURNS):
        for partition_id in PARTITIONS[: 1 + turn % 3]:
            stage.append(partition_id, b"%d-%d" % (partition_id, turn) + b"." * (turn * 7 % 90))
        stage.turn()
        if turn % 4:
            stage.settle()
    stage.settle()
    records = {partition_id: dict(stage.read_all(partition_id)) for partition_id in PARTITIONS}
    if is_clean:
        stage.close()
    else:
        stage.journal.abort()
    names = stage.disk.list(DIRECTORY)
    return {name: bytes(read_file(stage.disk, DIRECTORY / name) or b"") for name in names}, records


CLEAN = written(is_clean=True)
KILLED = written(is_clean=False)

flip = st.tuples(st.just("flip"), st.integers(0, 10_000), st.integers(0, 7))
blank = st.tuples(st.just("blank"), st.integers(0, 10_000), st.integers(1, 600))
cut = st.tuples(st.just("cut"), st.integers(0, 10_000), st.just(0))
lose = st.tuples(st.just("lose"), st.just(0), st.just(0))
damages = st.lists(st.tuples(st.integers(0, 30), st.one_of(flip, flip, blank, cut, lose)), min_size=1, max_size=5)


def disk_with(files: Files) -> SimDisk:
    disk = SimDisk()
    disk.make_directory(DIRECTORY)
    for name, content in files.items():
        file = disk.create(DIRECTORY / name)
        file.write([content], 0)
        file.flush()
    disk.sync_directory(DIRECTORY)
    return disk


def spoil(files: Files, damage: list[tuple[int, tuple[str, int, int]]]) -> Files:
    spoiled = dict(files)
    for number, (kind, at, much) in damage:
        name = sorted(files)[number % len(files)]
        content = bytearray(spoiled.get(name, b""))
        at %= max(1, len(content))
        if kind == "lose":
            spoiled.pop(name, None)
            continue
        if kind == "cut":
            del content[at:]
        elif kind == "blank":
            content[at : at + much] = bytes(len(content[at : at + much]))
        elif content:
            content[at] ^= 1 << much
        if name in spoiled:
            spoiled[name] = bytes(content)
    return spoiled


def visible(stage: Stage, log: PartitionLog) -> dict[int, bytes]:
    """The records that a consumer finds when it skips damage."""
    found: dict[int, bytes] = {}
    offset = log.start_offset
    while offset < log.high_watermark:
        records: list[tuple[int, bytes]] = []
        with contextlib.suppress(CorruptData):
            records = [record for record in records_of(stage.read(log, offset)) if record[0] >= offset]
        found.update(records)
        offset = records[-1][0] + 1 if records else offset + 1
    return found


def check(stage: Stage, records: Records) -> None:
    for partition_id in PARTITIONS:
        found = visible(stage, stage.journal.log(partition_id))
        assert found.items() <= records[partition_id].items(), "a wrong record"


@hypothesis.settings(max_examples=3 * EXAMPLES, deadline=None)
@hypothesis.given(st.booleans(), damages)
def test_a_start_tells_the_truth_or_refuses(is_clean: bool, damage: list[tuple[int, tuple[str, int, int]]]) -> None:
    files, records = CLEAN if is_clean else KILLED
    disk = disk_with(spoil(files, damage))
    refusal = ""
    try:
        check(Stage(disk=disk), records)
    except StorageError as error:
        refusal = str(error)
    assert not refusal or str(DIRECTORY) in refusal


@hypothesis.settings(max_examples=3 * EXAMPLES, deadline=None)
@hypothesis.given(st.booleans(), damages)
def test_a_repair_ends_in_a_journal_that_opens(is_clean: bool, damage: list[tuple[int, tuple[str, int, int]]]) -> None:
    files, records = CLEAN if is_clean else KILLED
    disk = disk_with(spoil(files, damage))
    inspector = Inspector(disk, DIRECTORY, SMALL)
    for _ in range(REPAIRS_MAX):
        problems = inspector.problems()
        if not problems:
            break
        if all(problem.remedy is Remedy.RESTORE for problem in problems):
            return
        curable = next(problem for problem in problems if problem.remedy is not Remedy.RESTORE)
        assert Path(repair(inspector, curable).split(" ")[0].rstrip(":")).parent == DIRECTORY
    else:
        raise AssertionError(f"repairs do not end: {problems}")
    stage = Stage(disk=disk)
    check(stage, records)
    ends = {partition_id: stage.journal.log(partition_id).end_offset for partition_id in PARTITIONS}
    new = {partition_id: stage.append(partition_id, b"new") for partition_id in PARTITIONS}
    stage.settle()
    assert {partition_id: append.base_offset for partition_id, append in new.items()} == ends
    stage.close()
    assert inspector.problems() == []
    assert stage.open().recovery.was_clean
