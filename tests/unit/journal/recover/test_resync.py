"""Finding the way again behind damage, and who says that it had been flushed."""

from pathlib import Path

import pytest

from hutong.journal.files.disk import DiskFile
from hutong.journal.format import chunk
from hutong.journal.read.walk import _SEARCH_BYTES, WINDOW_BYTES_MAX, SegmentWindow
from hutong.journal.recover.resync import chunks_behind, search_behind
from hutong.testing.disks.simulated import SimDisk

BASE = 4096


def made(position: int, payload: bytes, unflushed_bytes: int = chunk.FLUSH_UNKNOWN) -> bytes:
    entry = chunk.ENTRY.pack(1, chunk.BATCHES, 0, 1, 0, len(payload), 1, -1)
    return chunk.encode_header(position, 0, 0, [entry], len(payload), unflushed_bytes, digest=0) + payload


def window_on(content: bytes, base_position: int = BASE) -> SegmentWindow:
    disk = SimDisk()
    disk.make_directory(Path("/d"))
    file: DiskFile = disk.create(Path("/d/a"))
    file.write([content], 0)
    return SegmentWindow(file, base_position, base_position + len(content), WINDOW_BYTES_MAX, is_cached_only=False)


def positions(content: bytes, position: int = BASE) -> list[int]:
    window = window_on(content)
    return [found.position for found in chunks_behind(window, position, window.end_position)]


@pytest.mark.parametrize("gap", [80, 81, _SEARCH_BYTES - 1, _SEARCH_BYTES, _SEARCH_BYTES + 3, 3 * _SEARCH_BYTES])
@pytest.mark.parametrize("filling", [b"\0", b"H", b"HtCk"])
def test_the_next_chunk_is_found_wherever_it_begins(gap: int, filling: bytes) -> None:
    damaged = (filling * gap)[:gap]
    first = made(BASE + gap, b"x" * 50)
    second = made(BASE + gap + len(first), b"y")
    assert positions(damaged + first + second + bytes(100)) == [BASE + gap, BASE + gap + len(first)]


def test_a_second_damaged_place_is_passed_too() -> None:
    first = made(BASE + 100, b"x")
    second = made(BASE + 100 + len(first) + 90, b"y")
    found = positions(b"?" * 100 + first + b"?" * 90 + second)
    assert found == [BASE + 100, BASE + 190 + len(first)]


def test_what_a_payload_imitates_is_not_believed_while_its_own_header_is_sound() -> None:
    at = BASE + chunk.header_bytes_for(1)
    imitation = made(at, b"forged", unflushed_bytes=0)
    holder = made(BASE, imitation)
    behind = made(BASE + len(holder), b"true")
    assert positions(holder + behind) == [BASE + len(holder)]


def test_a_chunk_that_was_written_for_another_place_is_not_believed() -> None:
    assert positions(b"?" * 100 + made(BASE + 512, b"x")) == []
    assert positions(b"?" * 100 + made(BASE + 100, b"x")[:-1]) == [], "one that is cut off"


def test_who_was_made_after_the_flush_is_a_witness() -> None:
    damaged = b"?" * 100
    in_flight = made(BASE + 100, b"x", unflushed_bytes=100)
    later = made(BASE + 100 + len(in_flight), b"y", unflushed_bytes=len(in_flight))
    window = window_on(damaged + in_flight + later)
    behind = search_behind(window, BASE, window.end_position, ())
    assert behind.first is not None
    assert behind.witness is not None
    assert behind.first.position == BASE + 100
    assert behind.witness.position == BASE + 100 + len(in_flight)
    window = window_on(damaged + in_flight)
    assert search_behind(window, BASE, window.end_position, ()).witness is None


@pytest.mark.parametrize("unflushed_bytes", [0, 100, 101, chunk.FLUSH_UNKNOWN])
def test_a_later_segment_is_asked_by_its_first_chunk(unflushed_bytes: int) -> None:
    window = window_on(b"?" * 100)
    later = window_on(made(BASE + 100, b"x", unflushed_bytes), BASE + 100)
    behind = search_behind(window, BASE, window.end_position, [window_on(b"", BASE + 90), later])
    assert behind.first is None
    assert (behind.witness is not None) == (unflushed_bytes < 100)
