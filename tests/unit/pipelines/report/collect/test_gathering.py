"""Runs of a pipeline's folder: all there, half there, nothing there."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.pipelines.report.collect import test_live
from tests.unit.pipelines.report.spark_events import as_bytes, progress, whole_log

from hutong.foundation.errors import UsageError
from hutong.pipelines.declared.run.run_folder import (
    FAILED,
    PROGRESS_BEFORE,
    RUNNING,
    PipelineFolder,
    RunFolder,
    RunRecord,
)
from hutong.pipelines.report.collect.gathering import (
    ASKED_DRIVER,
    NO_EVENT_LOG,
    run_of_folder,
    run_of_log,
)
from hutong.pipelines.report.render.page import page, state_of

PID_OF_NOBODY = 2**22 + 1
"""Linux gives no such number."""


def record(run_id: str, state: str, pid: int = 1, error: str | None = None) -> RunRecord:
    return RunRecord(run_id, "hours", "/x/hours.toml", pid, 1, 400, state, "local[*]", error=error)


def made(folder: PipelineFolder, run_id: str, state: str, pid: int = 1, error: str | None = None) -> RunFolder:
    run = folder.new_run(run_id)
    run.write(record(run_id, state, pid, error))
    return run


@pytest.fixture
def folder(tmp_path: Path) -> PipelineFolder:
    return PipelineFolder(tmp_path / "hours")


def lines(count: int) -> bytes:
    return b"".join(json.dumps(progress(number)["progress"]).encode() + b"\n" for number in range(count))


def test_the_newest_run_that_told_something(folder: PipelineFolder) -> None:
    first = made(folder, "1", FAILED, error="the disk is full")
    first.progress.write_bytes(lines(9))
    second = made(folder, "2", RUNNING, pid=os.getpid())
    second.progress.write_bytes(lines(3))
    (second.events / "local-1").write_bytes(as_bytes(whole_log(2)))
    made(folder, "3", RUNNING, pid=PID_OF_NOBODY)
    run = run_of_folder(folder.path)
    assert (run.name, run.run_id, state_of(run), run.spark_version) == ("hours", "2", "running", "4.3.0")
    (query,) = run.queries.values()
    assert [batch.batch_id for batch in query.batches.values()] == [0, 1, 2]  # told by both, counted once
    assert [(sibling.run_id, sibling.state) for sibling in run.siblings] == [
        ("1", FAILED),
        ("2", RUNNING),
        ("3", "died"),
    ]
    assert "Runs of this pipeline" in page(run)


def test_a_run_by_its_id_and_by_its_folder(folder: PipelineFolder) -> None:
    first = made(folder, "1", FAILED, error="the disk is full")
    first.progress.write_bytes(lines(2) + b"no json\n" + lines(1)[:20])
    for run in (run_of_folder(folder.path, "1"), run_of_folder(first.path)):
        assert [failure.message for failure in run.failures.values()] == ["the disk is full"]
        assert run.notes == [
            NO_EVENT_LOG,
            "1 lines of progress.jsonl could not be read and are left out.",
        ]


def test_a_driver_at_work_without_an_event_log_is_asked_itself(folder: PipelineFolder) -> None:
    at_work = made(folder, "1", RUNNING, pid=os.getpid())
    at_work.progress.write_bytes(lines(2))
    with test_live.driver(test_live.told({"spark.master": "local[2]"})) as url:
        at_work.write(replace(record("1", RUNNING, pid=os.getpid()), ui_url=url))
        run = run_of_folder(folder.path)
    assert (run.name, len(run.stages), len(run.queries), run.notes) == ("hours", 1, 1, [ASKED_DRIVER])
    assert run_of_folder(folder.path).notes == [NO_EVENT_LOG]  # it has gone


def test_progress_that_was_put_aside_comes_first(folder: PipelineFolder) -> None:
    run = made(folder, "1", FAILED)
    (run.path / PROGRESS_BEFORE).write_bytes(lines(2))
    run.progress.write_bytes(lines(4).split(b"\n", 2)[2])
    (query,) = run_of_folder(folder.path).queries.values()
    assert [batch.batch_id for batch in query.batches.values()] == [0, 1, 2, 3]


@pytest.mark.parametrize("field", ["pid", "started_ms", "ended_ms"])
def test_a_record_that_somebody_edited_is_let_be(folder: PipelineFolder, field: str) -> None:
    run = made(folder, "1", FAILED)
    run.progress.write_bytes(lines(1))
    told = json.loads((run.path / "run.json").read_text()) | {field: "yesterday"}
    (run.path / "run.json").write_text(json.dumps(told))
    assert (run_of_folder(folder.path).state, run_of_folder(folder.path).siblings) == ("", [])


def test_an_event_log_that_cannot_be_read_is_no_hindrance(folder: PipelineFolder) -> None:
    run = made(folder, "1", FAILED)
    run.progress.write_bytes(lines(1))
    (run.events / "local-1.snappy").write_bytes(b"x")
    (note,) = run_of_folder(folder.path).notes
    assert note.startswith("The stages are missing here: local-1.snappy is packed with snappy")


def test_a_run_that_is_not_there_is_named_beside_those_that_are(folder: PipelineFolder) -> None:
    made(folder, "1", FAILED)
    with pytest.raises(UsageError, match="has no run 7: the newest are 1"):
        run_of_folder(folder.path, "7")
    with pytest.raises(UsageError, match="has reported anything yet"):
        run_of_folder(folder.path)


def test_what_is_no_folder_of_a_pipeline(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder of a pipeline"):
        run_of_folder(tmp_path)


def test_any_event_log(tmp_path: Path) -> None:
    (tmp_path / "local-1").write_bytes(as_bytes(whole_log()))
    assert run_of_log(tmp_path).name == "mine"
