"""One suite for every disk: what the journal relies on, how faults look; then what only the simulated one can show."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from hutong.foundation.errors import DiskFull, FlushFailed, StorageError
from hutong.journal.files.disk import IOV_MAX, Disk, RealDisk, read_file, replace_file
from hutong.testing.disks.faults import ACTIONS, DiskFault, FaultPlan
from hutong.testing.disks.faulty import FaultyDisk
from hutong.testing.disks.memory import MemoryDisk
from hutong.testing.disks.mortal import MortalDisk
from hutong.testing.disks.simulated import SECTOR_BYTES, SimDisk

DISKS: dict[str, Callable[[FaultPlan], Disk]] = {
    "real": lambda _plan: RealDisk(),
    "simulated": lambda plan: SimDisk(plan=plan),
    "faulty real": lambda plan: FaultyDisk(RealDisk(), plan),
    "faulty simulated": lambda plan: FaultyDisk(SimDisk(), plan),
    "in memory": lambda _plan: MemoryDisk(),
    "faulty and mortal in memory": lambda plan: MortalDisk(FaultyDisk(MemoryDisk(), plan)),
}
WITHOUT_FAULTS = ("real", "in memory")


@pytest.fixture
def plan() -> FaultPlan:
    return FaultPlan()


def prepared(kind: str, plan: FaultPlan, tmp_path: Path) -> tuple[Disk, Path]:
    disk, directory = DISKS[kind](plan), tmp_path / "deep" / "down"
    disk.make_directory(directory)
    disk.make_directory(directory)
    return disk, directory


@pytest.fixture(params=DISKS)
def place(request: pytest.FixtureRequest, tmp_path: Path, plan: FaultPlan) -> tuple[Disk, Path]:
    return prepared(request.param, plan, tmp_path)


@pytest.fixture(params=[kind for kind in DISKS if kind not in WITHOUT_FAULTS])
def faulty(request: pytest.FixtureRequest, tmp_path: Path, plan: FaultPlan) -> tuple[Disk, Path]:
    """Those whose faults can be planned."""
    return prepared(request.param, plan, tmp_path)


def test_what_is_written_is_read_back(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    file = disk.create(directory / "a")
    file.write([b"one", bytearray(b""), memoryview(b"two")], 2)
    file.write([b"END"], 8)
    assert bytes(file.read(100, 0)) == b"\0\0onetwoEND"
    assert bytes(file.read(3, 2)) == b"one"
    assert bytes(file.read(5, 11)) == b""
    assert file.size() == 11
    file.flush()
    file.close()
    again = disk.open(directory / "a")
    assert bytes(again.read(6, 2)) == b"onetwo"
    again.close()


def test_more_buffers_than_one_system_call_takes(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    file = disk.create(directory / "a")
    buffers = [b"%04d" % number for number in range(2 * IOV_MAX + 7)]
    file.write(buffers, 1)
    assert bytes(file.read(file.size(), 1)) == b"".join(buffers)
    file.close()


def test_a_read_into_memory_brings_what_there_is(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    file = disk.create(directory / "a")
    file.write([b"0123456789"], 0)
    memory = memoryview(bytearray(20))
    assert file.read_into(memory[:5], 3) == 5
    assert bytes(memory[:5]) == b"34567"
    assert file.read_into(memory, 3) == 7
    assert bytes(memory[:8]) == b"3456789\0"
    assert file.read_into(memory, 10) == 0
    cached = file.read_cached_into(memory[10:], 4)
    assert bytes(memory[10 : 10 + cached]) == b"456789"[:cached]
    file.close()


def test_reserved_space_reads_as_zeros_and_truncation_ends_the_file(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    file = disk.create(directory / "a")
    file.write([b"abc"], 0)
    file.preallocate(0, 4096)
    assert file.size() == 4096
    assert bytes(file.read(4096, 0)) == b"abc" + bytes(4093)
    file.truncate(2)
    assert bytes(file.read(10, 0)) == b"ab"
    file.truncate(4)
    assert bytes(file.read(10, 0)) == b"ab\0\0"
    file.close()


def test_names(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    assert disk.list(directory / "absent") == []
    for name in ("b", "a"):
        disk.create(directory / name).close()
    disk.rename(directory / "a", directory / "c")
    disk.sync_directory(directory)
    assert disk.list(directory) == ["b", "c"]
    disk.unlink(directory / "b")
    disk.unlink(directory / "b")
    assert disk.list(directory) == ["c"]
    with pytest.raises(StorageError):
        disk.open(directory / "b")
    with pytest.raises(StorageError):
        disk.rename(directory / "b", directory / "d")
    with pytest.raises(StorageError):
        disk.create(directory / "absent" / "x")
    assert disk.free_bytes(directory) > 0


def test_a_file_with_two_names_is_one_file(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    file = disk.create(directory / "a")
    assert not disk.has_other_names(directory / "a")
    disk.link(directory / "a", directory / "b")
    disk.sync_directory(directory)
    file.write([b"data"], 0)
    file.close()
    assert bytes(read_file(disk, directory / "b") or b"") == b"data"
    assert disk.has_other_names(directory / "a")
    assert disk.has_other_names(directory / "b")
    disk.unlink(directory / "a")
    assert bytes(read_file(disk, directory / "b") or b"") == b"data"
    assert not disk.has_other_names(directory / "b")
    with pytest.raises(StorageError):
        disk.link(directory / "a", directory / "c")


def test_creating_empties_a_file_and_an_open_one_outlives_its_name(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    file = disk.create(directory / "a")
    file.write([b"old"], 0)
    disk.unlink(directory / "a")
    assert bytes(file.read(3, 0)) == b"old"
    file.close()
    fresh = disk.create(directory / "a")
    assert fresh.size() == 0
    fresh.close()


def test_a_file_is_replaced_whole(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    assert read_file(disk, directory / "a") is None
    for content in (b"first", b"second, longer", b""):
        replace_file(disk, directory / "a", content)
        assert bytes(read_file(disk, directory / "a") or b"") == content
    assert disk.list(directory) == ["a"]


def test_a_file_whose_name_is_gone_cannot_be_made_durable(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    file = disk.create(directory / "a")
    file.write([b"data"], 0)
    file.flush()
    disk.rename(directory / "a", directory / "b")
    file.flush()
    disk.unlink(directory / "b")
    with pytest.raises(FlushFailed, match="removed while it was in use"):
        file.flush()
    file.close()


# -- faults by plan


def calls(disk: Disk, directory: Path) -> dict[str, Callable[[], object]]:
    """Every operation of the port, ready to be called on the file `a` or beside it."""
    file = disk.create(directory / "a")
    file.write([b"0123456789"], 0)
    return {
        "open": lambda: disk.open(directory / "a").close(),
        "create": lambda: disk.create(directory / "a2").close(),
        "rename": lambda: disk.rename(directory / "a", directory / "a"),
        "link": lambda: disk.link(directory / "a", directory / "a5"),
        "unlink": lambda: disk.unlink(directory / "a3"),
        "list": lambda: disk.list(directory),
        "make_directory": lambda: disk.make_directory(directory / "a4"),
        "sync_directory": lambda: disk.sync_directory(directory),
        "free_bytes": lambda: disk.free_bytes(directory),
        "write": lambda: file.write([b"x"], 0),
        "read": lambda: (file.read(1, 0), file.read_into(memoryview(bytearray(1)), 0)),
        "flush": lambda: file.flush(),
        "preallocate": lambda: file.preallocate(0, 4096),
        "truncate": lambda: file.truncate(10),
        "size": lambda: file.size(),
    }


@pytest.mark.parametrize("operation", sorted(ACTIONS.keys() - {"read_cached"}))
def test_every_call_can_fail_and_heals(operation: str, faulty: tuple[Disk, Path], plan: FaultPlan) -> None:
    disk, directory = faulty
    call = calls(disk, directory)[operation]
    plan.add(operation, errno.EIO)
    for _ in range(2):
        with pytest.raises(StorageError, match="Input/output error") as raised:
            call()
        assert isinstance(raised.value, FlushFailed) == (operation in ("flush", "sync_directory"))
        assert not isinstance(raised.value, DiskFull)
        assert str(directory) in str(raised.value)
    plan.heal()
    call()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_no_space_is_told_apart_but_not_by_a_flush(code: int, faulty: tuple[Disk, Path], plan: FaultPlan) -> None:
    disk, directory = faulty
    ready = calls(disk, directory)
    for operation in ("create", "write", "preallocate"):
        plan.replace([DiskFault(operation, error=code)])
        with pytest.raises(DiskFull):
            ready[operation]()
    plan.replace([DiskFault("flush", error=code)])
    with pytest.raises(FlushFailed):
        ready["flush"]()


def test_a_fault_strikes_the_calls_it_was_planned_for(faulty: tuple[Disk, Path], plan: FaultPlan) -> None:
    disk, directory = faulty
    one, other = disk.create(directory / "one"), disk.create(directory / "other")
    plan.add("write", errno.EIO, pattern="*/one", after=1, times=2)
    results = []
    for _ in range(5):
        other.write([b"x"], 0)
        try:
            one.write([b"x"], 0)
            results.append(True)
        except StorageError:
            results.append(False)
    assert results == [True, False, False, True, True]
    one.close()
    other.close()


def test_a_write_that_fails_may_land_in_part(faulty: tuple[Disk, Path], plan: FaultPlan) -> None:
    disk, directory = faulty
    file = disk.create(directory / "a")
    file.write([b"........"], 0)
    plan.add("write", errno.ENOSPC, times=1, lands_bytes=5)
    with pytest.raises(DiskFull):
        file.write([b"abc", b"defg"], 1)
    assert bytes(file.read(8, 0)) == b".abcde.."
    file.close()


def test_a_slow_call_takes_its_time_and_succeeds(faulty: tuple[Disk, Path], plan: FaultPlan) -> None:
    disk, directory = faulty
    call = calls(disk, directory)["flush"]
    plan.add("flush", latency_ms=250, times=2)
    for _ in range(3):
        call()
    assert plan.slept_ms == 500


def test_a_cached_read_that_fails_is_left_to_a_worker(faulty: tuple[Disk, Path], plan: FaultPlan) -> None:
    disk, directory = faulty
    file = disk.create(directory / "a")
    file.write([b"data"], 0)
    plan.add("read_cached", errno.EIO)
    assert file.read_cached_into(memoryview(bytearray(4)), 0) == 0
    file.close()


def test_a_fault_of_no_operation_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="fsync"):
        DiskFault("fsync")


def test_waits_are_real_where_a_sleep_is_given() -> None:
    slept: list[float] = []
    FaultPlan([DiskFault("*", latency_ms=20)], slept.append).strike("flush", Path("/a"))
    assert slept == [0.02]


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_pwritev = os.pwritev

    def short_pwritev(descriptor: int, buffers: list[bytes], position: int) -> int:
        return real_pwritev(descriptor, [b"".join(buffers)[:5]], position)

    monkeypatch.setattr(os, "pwritev", short_pwritev)
    file = RealDisk().create(tmp_path / "a")
    file.write([b"abc", b"defg", b"hi"], 1)
    assert bytes(file.read(20, 0)) == b"\0abcdefghi"
    file.close()


def test_errors_of_the_operating_system_keep_the_one_distinction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RealDisk().create(tmp_path / "a")

    def failing(code: int) -> None:
        def fail(*_: object) -> None:
            raise OSError(code, os.strerror(code))

        for name in ("pwritev", "posix_fallocate", "fdatasync"):
            monkeypatch.setattr(os, name, fail)

    failing(28)  # ENOSPC
    with pytest.raises(DiskFull):
        file.write([b"x"], 0)
    with pytest.raises(DiskFull):
        file.preallocate(0, 10)
    with pytest.raises(FlushFailed):
        file.flush()
    failing(5)  # EIO
    with pytest.raises(StorageError) as error:
        file.write([b"x"], 0)
    assert not isinstance(error.value, DiskFull)
    monkeypatch.undo()
    file.close()


def test_a_crash_keeps_what_was_flushed_and_only_sectors_of_the_rest() -> None:
    flushed, unflushed = bytes([1]) * 1000, bytes([2]) * 3000
    seen = set()
    for seed in range(60):
        disk = SimDisk()
        disk.make_directory(Path("/d"))
        file = disk.create(Path("/d/a"))
        disk.sync_directory(Path("/d"))
        file.preallocate(0, 8192)
        file.write([flushed], 0)
        file.flush()
        file.write([unflushed], 1000)
        disk.crash(Random(seed))
        with pytest.raises(StorageError):
            file.read(1, 0)
        content = bytes(disk.open(Path("/d/a")).read(8192, 0))
        assert content[:1000] == flushed
        pieces = [content[start : start + SECTOR_BYTES] for start in range(1024, 4000, SECTOR_BYTES)]
        assert all(set(piece) <= {0, 2} for piece in pieces)
        seen.add(tuple(piece[0] for piece in pieces))
    assert len(seen) > 10, "crashes should differ: lost, torn, reordered, whole"


def test_a_crash_may_take_names_whose_directory_was_not_flushed() -> None:
    kept = set()
    for seed in range(20):
        disk = SimDisk()
        disk.make_directory(Path("/d"))
        disk.create(Path("/d/a"))
        disk.sync_directory(Path("/d"))
        disk.create(Path("/d/b"))
        disk.unlink(Path("/d/a"))
        disk.crash(Random(seed))
        kept.add(tuple(disk.list(Path("/d"))))
    assert kept == {("a",), ("a", "b"), ("b",)}


def test_a_failed_flush_loses_the_pages_for_good() -> None:
    disk = SimDisk()
    disk.make_directory(Path("/d"))
    file = disk.create(Path("/d/a"))
    disk.sync_directory(Path("/d"))
    file.write([b"data"], 0)
    disk.failing_flushes = 1
    with pytest.raises(FlushFailed):
        file.flush()
    file.flush()  # succeeds, and lies
    assert bytes(file.read(4, 0)) == b"data"
    disk.crash(Random(0))
    assert bytes(disk.open(Path("/d/a")).read(4, 0)) == b""


def test_a_planned_flush_failure_loses_the_pages_too() -> None:
    disk = SimDisk()
    disk.make_directory(Path("/d"))
    file = disk.create(Path("/d/a"))
    disk.sync_directory(Path("/d"))
    file.write([b"data"], 0)
    disk.plan.add("flush", errno.EIO, times=1)
    with pytest.raises(FlushFailed):
        file.flush()
    file.flush()
    disk.crash(Random(0))
    assert bytes(disk.open(Path("/d/a")).read(4, 0)) == b""


def test_a_full_disk_takes_nothing_more_until_space_returns() -> None:
    disk = SimDisk(capacity_bytes=100)
    disk.make_directory(Path("/d"))
    file = disk.create(Path("/d/a"))
    file.preallocate(0, 60)
    with pytest.raises(DiskFull):
        file.write([bytes(50)], 60)
    file.write([bytes(60)], 0)
    disk.capacity_bytes = 200
    file.write([bytes(50)], 60)


def test_what_the_real_disk_makes_is_the_owners_alone(tmp_path: Path) -> None:
    disk, old_mask = RealDisk(), os.umask(0)
    try:
        disk.make_directory(tmp_path / "groups" / "days")
        disk.create(tmp_path / "groups" / "days" / "a").close()
        replace_file(disk, tmp_path / "groups" / "days" / "b", b"content")
    finally:
        os.umask(old_mask)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"groups": 0o700, "days": 0o700, "a": 0o600, "b": 0o600}


def test_a_folder_is_made_durable_also_where_somebody_else_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(RealDisk, "sync_directory", lambda _self, path: synced.append(path))
    RealDisk().make_directory(tmp_path / "groups" / "days")
    assert synced == [tmp_path, tmp_path / "groups"]
    synced.clear()
    RealDisk().make_directory(tmp_path / "groups" / "days")
    assert synced == [tmp_path / "groups"], "whoever made it may have been killed before"
