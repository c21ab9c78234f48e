"""Event logs as files: whole, in parts, packed, cut off, and what is none."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.pipelines.report.spark_events import as_bytes, whole_log

from hutong.foundation.errors import UsageError
from hutong.pipelines.report.collect import lines as module
from hutong.pipelines.report.collect.event_log import parts_of, read_event_log
from hutong.pipelines.report.collect.lines import Reading, lines_of_chunks, lines_of_file
from hutong.pipelines.report.collect.spark_lz4 import HEAD, MAGIC, PACKED, RAW
from hutong.pipelines.report.model import SparkRun

LOG = as_bytes(whole_log())


def run_of(path: Path) -> SparkRun:
    run = SparkRun()
    read_event_log(path, run)
    return run


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "local-1"
    path.write_bytes(LOG)
    return path


def test_a_log_in_one_file(log: Path) -> None:
    run = run_of(log)
    assert (len(run.jobs), len(run.stages), run.notes) == (2, 4, [])


def test_a_folder_stands_for_its_newest_log(log: Path) -> None:
    (log.parent / ".local-1.crc").write_bytes(b"x")
    assert parts_of(log.parent) == [log]


def test_parts_are_read_by_number_and_a_compacted_one_stands_for_those_before(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_local-1"
    folder.mkdir()
    lines = LOG.splitlines(keepends=True)
    (folder / "appstatus_local-1").write_bytes(b"")
    for number in (1, 2, 9, 10):
        (folder / f"events_{number}_local-1").write_bytes(b"".join(lines[number::20]))
    (folder / "events_2_local-1.compact").write_bytes(b"")
    assert [part.name for part in parts_of(tmp_path)] == [
        *("events_2_local-1.compact", "events_9_local-1", "events_10_local-1"),
    ]


@pytest.mark.parametrize("cut", [1, 40, 300])
def test_the_end_that_a_killed_driver_cut_off_is_left_out_and_said(log: Path, cut: int) -> None:
    log.write_bytes(LOG[: -len(LOG.splitlines()[-1]) - cut])
    run = run_of(log)
    assert len(run.jobs) == 2
    assert run.notes[0] == "The event log has no end: the driver is still at work, or it was killed."


def test_a_cut_off_event_is_said_to_be_one(log: Path) -> None:
    log.write_bytes(LOG[:-30])
    assert "The last event is cut off." in run_of(log).notes


@pytest.mark.parametrize("name", ["a.zstd", "a.zst", "a.zstd.inprogress"])
def test_a_packed_log(tmp_path: Path, name: str) -> None:
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / name
    with pa.OSFile(str(path), "wb") as file, pa.CompressedOutputStream(file, "zstd") as packed:
        packed.write(LOG)
    assert len(run_of(path).jobs) == 2
    path.write_bytes(path.read_bytes()[:-20])
    assert run_of(path).notes


def lz4(body: bytes, block: int = 1000) -> bytes:
    cramjam = pytest.importorskip("cramjam")
    packed = b""
    for begin in range(0, len(body), block):
        piece = body[begin : begin + block]
        inner = bytes(cramjam.lz4.compress_block(piece, store_size=False))
        packed += HEAD.pack(MAGIC, PACKED, len(inner), len(piece), 0) + inner
    return packed + HEAD.pack(MAGIC, RAW, 3, 3, 0) + b"\n{}" + HEAD.pack(MAGIC, RAW, 0, 0, 0)


def test_a_log_packed_with_lz4(tmp_path: Path) -> None:
    path = tmp_path / "a.lz4"
    path.write_bytes(lz4(LOG))
    assert len(run_of(path).jobs) == 2


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 5000), st.integers(0, 255))
def test_damage_in_lz4_ends_the_reading_where_it_is(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int
) -> None:
    body = bytearray(lz4(LOG))
    body[at % len(body)] = byte
    path = tmp_path_factory.getbasetemp() / "damaged.lz4"
    path.write_bytes(body)
    assert list(lines_of_file(path, Reading())) is not None


def test_what_cannot_be_unpacked_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.snappy").write_bytes(b"x")
    with pytest.raises(UsageError, match=r"spark.eventLog.compression.codec=zstd"):
        run_of(tmp_path / "a.snappy")


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n....\nx", b'{"a": 1}\n', b"[" * 100_000 + b"\n"])
def test_another_file_is_no_event_log(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(UsageError, match="is no event log of Spark"):
        run_of(tmp_path / "x")


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no event log at"):
        run_of(tmp_path / "x")
    with pytest.raises(UsageError, match="holds no event log"):
        run_of(tmp_path)


def test_unreadable_events_are_counted(log: Path) -> None:
    log.write_bytes(LOG + b'{"Event":"SparkListenerJobStart"}\n{"Event":"SparkListenerJobEnd"\n[]\n')
    assert run_of(log).notes == ["3 events could not be read and are left out."]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b""))), st.integers(1, 9), st.booleans())
def test_lines_are_the_same_however_chunks_are_cut(lines: list[bytes], chunk: int, ended: bool) -> None:
    body = b"\n".join(lines) + b"\n" * ended
    reading = Reading()
    found = list(lines_of_chunks((body[at : at + chunk] for at in range(0, len(body), chunk)), reading))
    wanted = body.split(b"\n")
    assert found == (wanted if wanted[-1] else wanted[:-1])
    assert reading.cut_off == bool(wanted[-1])


def test_a_line_beyond_the_bound_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINE_BYTES_MAX", 5)
    reading = Reading()
    assert list(lines_of_chunks([b"abc\nlong", b"er than\n", b"x\ntoo long"], reading)) == [b"abc", b"x"]
    assert (reading.long_line_count, reading.line_count, reading.cut_off) == (2, 2, False)


def test_events_nobody_asks_for_are_not_parsed(log: Path) -> None:
    log.write_bytes(LOG + b'{"Event":"SparkListenerBlockUpdated", no json\n')
    assert run_of(log).notes == []
    assert json.loads(LOG.splitlines()[0])["Event"] == "SparkListenerLogStart"
