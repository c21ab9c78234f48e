"""One suite for every disk: what the journal relies on. Then what only the simulated one can show."""

import os
from pathlib import Path
from random import Random

import pytest

from hutong.foundation.errors import DiskFull, FlushFailed, StorageError
from hutong.journal.disk import IOV_MAX, Disk, RealDisk, read_file, replace_file
from hutong.testing.disk import SECTOR_BYTES, SimDisk


@pytest.fixture(params=["real", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, Path]:
    disk: Disk = RealDisk() if request.param == "real" else SimDisk()
    directory = tmp_path / "deep" / "down"
    disk.make_directory(directory)
    disk.make_directory(directory)
    return disk, directory


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
