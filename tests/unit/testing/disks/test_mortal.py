"""A disk whose process dies: what arrives and what does not. What it has in common with every disk is tested there."""

from pathlib import Path

from hutong.journal.files.disk import read_file, replace_file
from hutong.testing.disks.memory import MemoryDisk
from hutong.testing.disks.mortal import MortalDisk

FOLDER = Path("/data")


def test_what_is_done_after_death_never_arrives() -> None:
    inner = MemoryDisk()
    disk = MortalDisk(inner)
    disk.make_directory(FOLDER)
    replace_file(disk, FOLDER / "a", b"before")
    file = disk.open(FOLDER / "a")
    disk.die()
    file.write([b"AFTER"], 0)
    file.truncate(1)
    file.preallocate(0, 4096)
    file.flush()
    replace_file(disk, FOLDER / "a", b"after")
    replace_file(disk, FOLDER / "b", b"after")
    disk.unlink(FOLDER / "a")
    disk.link(FOLDER / "a", FOLDER / "c")
    disk.make_directory(FOLDER / "more")
    assert bytes(file.read(100, 0)) == b"before"
    assert inner.list(FOLDER) == ["a"]
    assert bytes(read_file(inner, FOLDER / "a") or b"") == b"before"


def test_a_file_made_after_death_is_empty_and_harmless() -> None:
    disk = MortalDisk(MemoryDisk())
    disk.make_directory(FOLDER)
    disk.die()
    file = disk.create(FOLDER / "a")
    file.write([b"x"], 0)
    file.flush()
    buffer = memoryview(bytearray(4))
    assert (file.size(), bytes(file.read(4, 0)), file.read_into(buffer, 0), file.read_cached_into(buffer, 0)) == (
        0,
        b"",
        0,
        0,
    )
    file.close()


def test_the_next_life_finds_what_the_last_one_left() -> None:
    inner = MemoryDisk()
    first = MortalDisk(inner)
    first.make_directory(FOLDER)
    replace_file(first, FOLDER / "a", b"x")
    first.die()
    assert bytes(read_file(MortalDisk(inner), FOLDER / "a") or b"") == b"x"
