"""A leader's files take the place of a journal: all of them or none, wherever the power goes."""

from random import Random

import pytest
from tests.unit.journal.replicate.replicas import ReplicaStage
from tests.unit.journal.stage import DIRECTORY, values

from hutong.foundation.errors import CorruptData, HutongError, StorageError
from hutong.journal.files.segment import SEGMENT_SUFFIX
from hutong.journal.recover.recovery import INSTALL_NAME
from hutong.journal.replicate.install import (
    INCOMING_SUFFIX,
    SOURCE_NAME,
    finish_install,
    install_files,
    may_be_installed,
    prepare_files,
    write_part,
)
from hutong.journal.replicate.segment_files import FileListing
from hutong.journal.replicate.stream_reads import StreamGone

SOURCE = 42


def leader_with_files() -> tuple[ReplicaStage, FileListing]:
    leader = ReplicaStage(1).lead(1)
    for number in range(40):
        leader.append(1, *values(number, number + 3))
        leader.settle()
        leader.commit()
        leader.settle()
    leader.journal.checkpointer.begin_checkpoint()
    leader.settle()
    return leader, listing_of(leader)


def listing_of(leader: ReplicaStage) -> FileListing:
    found: list[FileListing | HutongError] = []
    leader.journal.segment_files.list_files(found.append)
    leader.settle()
    assert isinstance(found[0], FileListing), found
    return found[0]


def part_of(leader: ReplicaStage, listing: FileListing, name: str, start: int, count: int) -> object:
    found: list[object] = []
    leader.journal.segment_files.read_part(listing, name, start, count, found.append)
    leader.settle()
    return found[0]


def copy_files(leader: ReplicaStage, listing: FileListing, replica: ReplicaStage) -> None:
    prepare_files(replica.disk, DIRECTORY, SOURCE)
    for name, size in listing.sizes.items():
        for start in range(0, max(1, size), 1000):
            content = part_of(leader, listing, name, start, 1000) if size else b""
            assert isinstance(content, bytes | memoryview)
            write_part(replica.disk, DIRECTORY, name, start, content, size)


def old_replica() -> ReplicaStage:
    """A replica with a journal of its own, which has one other log."""
    replica = ReplicaStage(2)
    other = ReplicaStage(3).lead(1)
    for _ in range(30):
        other.append(9, *values(0, 3))
        other.settle()
        replica.take_from(other)
        replica.settle()
        replica.commit()
    replica.journal.abort()
    replica.settle()
    return replica


def test_a_copied_journal_is_that_of_the_leader() -> None:
    leader, listing = leader_with_files()
    replica = old_replica()
    copy_files(leader, listing, replica)
    install_files(replica.disk, DIRECTORY, listing.sizes)
    replica.open()
    assert replica.journal.position == listing.position
    assert replica.journal.log_ids() == [1]
    assert replica.read_all(1) == leader.read_all(1)
    assert replica.journal.epochs.starts() == leader.journal.epochs.starts()
    replica.settle()
    assert replica.problems() == []


@pytest.mark.parametrize("changes", range(30))
def test_the_power_may_go_at_any_time(changes: int) -> None:
    leader, listing = leader_with_files()
    replica = old_replica()
    copy_files(leader, listing, replica)
    replica.disk.changes_until_power_loss = changes
    try:
        install_files(replica.disk, DIRECTORY, listing.sizes)
    except StorageError:
        replica.disk.crash(Random(changes))
    replica.disk.changes_until_power_loss = None
    replica.open()
    assert replica.journal.log_ids() in ([1], [9])
    if replica.journal.log_ids() == [1]:
        replica.commit()
        assert replica.read_all(1) == leader.read_all(1)
        assert not [name for name in replica.disk.list(DIRECTORY) if name.endswith(INCOMING_SUFFIX)]
    assert INSTALL_NAME not in replica.disk.list(DIRECTORY)


def test_complete_segments_stay_for_the_next_attempt_with_the_same_source() -> None:
    leader, listing = leader_with_files()
    replica = old_replica()
    copy_files(leader, listing, replica)
    segments = {name: size for name, size in listing.sizes.items() if name.endswith(SEGMENT_SUFFIX)}
    assert prepare_files(replica.disk, DIRECTORY, SOURCE) == segments
    assert prepare_files(replica.disk, DIRECTORY, SOURCE + 1) == {}
    assert [name for name in replica.disk.list(DIRECTORY) if name.endswith(INCOMING_SUFFIX)] == [SOURCE_NAME]


def test_nothing_is_installed_where_a_file_is_not_as_it_should_be() -> None:
    leader, listing = leader_with_files()
    replica = old_replica()
    copy_files(leader, listing, replica)
    name = next(name for name in listing.sizes if name.endswith(SEGMENT_SUFFIX))
    replica.disk.open(DIRECTORY / (name + INCOMING_SUFFIX)).truncate(1)
    install_files(replica.disk, DIRECTORY, listing.sizes)
    replica.open()
    assert replica.journal.log_ids() == [9]


def test_a_damaged_order_to_install_is_refused() -> None:
    replica = old_replica()
    replica.disk.create(DIRECTORY / INSTALL_NAME).write([b"not what was written"], 0)
    with pytest.raises(CorruptData):
        finish_install(replica.disk, DIRECTORY)


def test_a_file_that_is_not_listed_or_was_removed_is_gone() -> None:
    leader, listing = leader_with_files()
    assert isinstance(part_of(leader, listing, "other", 0, 10), StreamGone)
    oldest = next(name for name in sorted(listing.sizes) if name.endswith(SEGMENT_SUFFIX))
    leader.journal.log(1).delete_before(100)
    for _ in range(3):
        leader.settle()
        leader.commit()
        leader.append(1, b"v")
    leader.settle()
    assert isinstance(part_of(leader, listing, oldest, 0, 10), StreamGone)
    assert oldest not in listing_of(leader).sizes


@pytest.mark.parametrize(
    ("name", "is_allowed"),
    [
        ("00000000000000000000.journal", True),
        ("00000000000000000000-00000000000000004096-512-1.journal", True),
        ("checkpoint", True),
        ("cleaned", True),
        ("00000000000000000000.index", False),
        ("../00000000000000000000.journal", False),
        ("install", False),
        ("", False),
    ],
)
def test_only_files_of_journals_are_taken(name: str, is_allowed: bool) -> None:
    assert may_be_installed(name) is is_allowed
