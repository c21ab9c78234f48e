"""Snapshots of an archive: what changes do, and that the log holds all of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import CorruptData, UnknownFormat
from hutong.pipelines.archive.snapshot import (
    WRITERS_MAX,
    BatchOf,
    DataFile,
    Removed,
    Snapshot,
    decode,
    encode,
    small_files,
    with_batch,
    with_replaced,
    without_removed,
)

ROOT = "file:///archive"
numbers = st.integers(0, 2**50)
names = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20).filter(
    lambda name: name not in {".", ".."}  # they name folders, so the log that has them is refused
)
files = st.builds(
    lambda day, name, *rest: DataFile(f"date={day}/{name}", *rest), names, names, numbers, numbers, numbers
)
snapshots = st.builds(
    Snapshot,
    st.lists(files, max_size=5).map(tuple),
    st.lists(st.builds(Removed, names, numbers), max_size=3).map(tuple),
    st.dictionaries(names, numbers, max_size=3),
)


def file(name: str, size_bytes: int = 10, day: str = "2015-05-17") -> DataFile:
    return DataFile(f"date={day}/{name}", size_bytes, 1, 0)


@given(snapshots)
def test_the_log_holds_all_of_a_snapshot(snapshot: Snapshot) -> None:
    assert decode(encode(snapshot, ROOT, 5), "x") == snapshot


@given(snapshots)
def test_every_entry_is_what_sparks_own_reader_expects(snapshot: Snapshot) -> None:
    version, *lines = encode(snapshot, ROOT, 5).splitlines()
    entries = [json.loads(line) for line in lines]
    needed = {"path", "size", "isDir", "modificationTime", "blockReplication", "blockSize", "action"}
    assert version == "v1"
    assert all(needed <= entry.keys() for entry in entries)
    assert [entry["isDir"] for entry in entries] == [True] + [False] * len(snapshot.files)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", UnknownFormat),
        ("v2\n", UnknownFormat),
        ("v1\n", CorruptData),
        ('v1\n{"path":"file:/x","action":"add"}', UnknownFormat),
        ("v1\n[]", UnknownFormat),
        ('v1\n{"hutong":1,"writers":{},"removed":[]}\n{"path":', CorruptData),
        ('v1\n{"hutong":1,"writers":{},"removed":[]}\n{"path":"x"}', CorruptData),
        ('v1\n{"hutong":1,"writers":{},"removed":3}', CorruptData),
        ('v1\n{"hutong":1,"writers":{},"removed":[["../x.parquet",1]]}', CorruptData),
        ('v1\n{"hutong":1,"writers":{},"removed":[["/etc/passwd",1]]}', CorruptData),
        ('v1\n{"hutong":1,"writers":{},"removed":[["a/../../x.parquet",1]]}', CorruptData),
        ('v1\n{"hutong":1,"writers":{},"removed":[["a\\u0000b",1]]}', CorruptData),
        ('v1\n{"hutong":1,"writers":{},"removed":[["",1]]}', CorruptData),
        ('v1\n{"hutong":1,"writers":{},"removed":[[7,1]]}', CorruptData),
        ("v1\n" + "[" * 100_000, CorruptData),
    ],
)
def test_a_log_that_is_damaged_or_of_others_is_told(text: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="here"):
        decode(text, "here")


def test_a_batch_is_added_once() -> None:
    first = with_batch(Snapshot(), [file("a")], BatchOf("q", 0))
    assert first is not None
    assert with_batch(first, [file("b")], BatchOf("q", 0)) is None
    other = with_batch(first, [file("b")], BatchOf("r", 0))
    assert other is not None
    assert [one.path[-1] for one in other.files] == ["a", "b"]
    assert with_batch(other, [file("c")], BatchOf("q", 1)) is not None
    assert with_batch(first, [file("c")], None) is not None


def test_the_writer_that_wrote_least_recently_is_forgotten_first() -> None:
    remembered = {f"q{number}": 5 for number in range(WRITERS_MAX)}
    again = with_batch(Snapshot(writers=remembered), [], BatchOf("q0", 6))
    assert again is not None
    more = with_batch(again, [], BatchOf("new", 0))
    assert more is not None
    more.check_invariants()
    assert more.writers == {name: number for name, number in again.writers.items() if name != "q1"} | {"new": 0}


def test_replaced_files_stay_listed_until_they_are_deleted() -> None:
    old = (file("a"), file("b"))
    snapshot = Snapshot((*old, file("c")))
    replaced = with_replaced(snapshot, old, [file("ab")], 7)
    assert replaced is not None
    assert [one.path[16:] for one in replaced.files] == ["c", "ab"]
    assert replaced.removed == (Removed(old[0].path, 7), Removed(old[1].path, 7))
    assert with_replaced(replaced, old, [file("again")], 8) is None, "someone else was faster"
    forgotten = without_removed(replaced, [old[0].path])
    assert forgotten is not None
    assert forgotten.removed == (Removed(old[1].path, 7),)
    assert without_removed(forgotten, ["other"]) is None


def test_small_files_of_one_partition_are_grouped_up_to_the_target() -> None:
    other_day = "2015-05-18"
    snapshot = Snapshot(
        (file("a", 40), file("x", 10, other_day), file("b", 40), file("big", 50), file("c", 40), file("d", 1))
    )
    groups = small_files(snapshot, target_bytes=100, files_min=2)
    assert [[one.path[16:] for one in group] for group in groups] == [["a", "b"], ["c", "d"]]
    assert small_files(snapshot, target_bytes=100, files_min=3) == []
    assert small_files(Snapshot(), target_bytes=100, files_min=2) == []


@given(
    st.lists(st.builds(file, names, st.integers(0, 200), st.sampled_from(["1", "2"])), max_size=30), st.integers(2, 200)
)
def test_groups_stay_in_their_partition_below_the_target_and_are_worth_it(found: list[DataFile], target: int) -> None:
    groups = small_files(Snapshot(tuple(found)), target, 2)
    for group in groups:
        assert len({one.partition for one in group}) == 1
        assert sum(one.size_bytes for one in group) <= target
        assert len(group) >= 2
    assert sum(len(group) for group in groups) <= len(found)
