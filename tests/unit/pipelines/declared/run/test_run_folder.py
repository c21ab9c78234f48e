"""What a pipeline keeps on disk: runs in order, records that can be read, a lock that one process holds."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from hutong.foundation.errors import UsageError
from hutong.pipelines.declared.run.run_folder import (
    FAILED,
    RUNNING,
    TAIL_BYTES_MAX,
    UNKNOWN_PID,
    PipelineFolder,
    RunRecord,
    pipelines_in,
    state_folder,
)

RECORD = RunRecord("0001", "web", "/x/web.toml", 11, 10, 1_000, RUNNING, "local[*]")


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = PipelineFolder(tmp_path / "web").new_run("0001")
    assert run.read() is None
    run.write(RECORD)
    ended = replace(RECORD, state=FAILED, ended_ms=2_000, error="it broke")
    run.write(ended)
    assert run.read() == ended
    assert run.events.is_dir()


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '{"run_id": "1"}', "[" * 100_000])
def test_a_record_that_is_not_one_counts_as_absent(content: str, tmp_path: Path) -> None:
    pipeline = PipelineFolder(tmp_path / "web")
    pipeline.new_run("0001").write(RECORD)
    (pipeline.new_run("0002").path / "run.json").write_text(content)
    last = pipeline.last_record()
    assert last is not None
    assert last[1] == RECORD


def test_a_record_of_a_later_version_is_read(tmp_path: Path) -> None:
    run = PipelineFolder(tmp_path / "web").new_run("0001")
    run.write(RECORD)
    told = json.loads((run.path / "run.json").read_text()) | {"colour": "red"}
    (run.path / "run.json").write_text(json.dumps(told))
    assert run.read() == RECORD


def test_progress_is_read_without_a_line_that_was_cut_off(tmp_path: Path) -> None:
    run = PipelineFolder(tmp_path / "web").new_run("0001")
    assert run.last_progress() == []
    for batch in range(3):
        run.append_progress(json.dumps({"batchId": batch}))
    with run.progress.open("a") as file:
        file.write('{"batchId": ')
    assert [document["batchId"] for document in run.last_progress()] == [0, 1, 2]


def test_of_much_progress_the_last_is_read(tmp_path: Path) -> None:
    run = PipelineFolder(tmp_path / "web").new_run("0001")
    filling = "x" * (TAIL_BYTES_MAX // 4)
    for batch in range(8):
        run.append_progress(json.dumps({"batchId": batch, "filling": filling}))
    read = [document["batchId"] for document in run.last_progress()]
    assert read == [5, 6, 7]


def test_one_process_holds_a_pipeline(tmp_path: Path) -> None:
    pipeline, again = PipelineFolder(tmp_path / "web"), PipelineFolder(tmp_path / "web")
    assert pipeline.supervisor_pid is None
    with pipeline.locked():
        assert again.supervisor_pid == os.getpid()
        with pytest.raises(UsageError, match="web is running already"), again.locked():
            pass
    assert again.supervisor_pid is None


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    pipeline = PipelineFolder(tmp_path / "file" / "web")
    with pytest.raises(UsageError, match="choose another with --state"), pipeline.locked():
        pass
    with pytest.raises(UsageError, match="choose another with --state"):
        pipeline.new_run("0001")


def test_the_pipelines_of_a_state_folder_are_found(tmp_path: Path) -> None:
    assert pipelines_in(tmp_path / "absent") == []
    state = state_folder(None, tmp_path)
    assert state == tmp_path / ".hutong" / "pipelines"
    for name in ("web", "audit"):
        PipelineFolder(state / name).new_run("0001").write(RECORD)
    (state / "stray").mkdir()
    assert [pipeline.path.name for pipeline in pipelines_in(state)] == ["audit", "web"]


@pytest.mark.parametrize("pid", [0, -1, True, "11", None])
def test_a_record_whose_process_is_none_counts_as_absent(pid: object, tmp_path: Path) -> None:
    """A signal to it would reach a whole group of processes."""
    run = PipelineFolder(tmp_path / "web").new_run("0001")
    run.write(replace(RECORD, pid=pid))  # type: ignore[arg-type]
    assert run.read() is None


@pytest.mark.parametrize("content", [b"", b"-1", b"0", b"x", b"1.5"])
def test_a_lock_that_names_no_process_is_held_by_an_unknown_one(content: bytes, tmp_path: Path) -> None:
    pipeline = PipelineFolder(tmp_path / "web")
    with pipeline.locked():
        (pipeline.path / "lock").write_bytes(content)
        assert pipeline.supervisor_pid == UNKNOWN_PID


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("content")
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(UsageError, match="choose another with --state"), PipelineFolder(tmp_path / "web").locked():
        pass
    assert (tmp_path / "precious").read_text() == "content"


def test_a_run_begins_in_a_folder_of_its_own(tmp_path: Path) -> None:
    pipeline = PipelineFolder(tmp_path / "web")
    pipeline.new_run("0001")
    (tmp_path / "elsewhere").mkdir()
    (pipeline.path / "runs" / "0002").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="choose another with --state"):
        pipeline.new_run("0002")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert pipeline.path.stat().st_mode & 0o777 == 0o700, "its owner's alone"
