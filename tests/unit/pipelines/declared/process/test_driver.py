"""The settings of a run's session, and how a run that never came to Spark is recorded."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from hutong.foundation.clock import ManualClock
from hutong.pipelines.declared import Pipeline
from hutong.pipelines.declared.process.request import Request
from hutong.pipelines.declared.run.run_folder import FAILED, PipelineFolder

pytest.importorskip("pyspark")

ENDLESS = Pipeline(name="web", sources={}, spark={"a": "file", "b": "file"})
EVENTS = "spark.eventLog.enabled"


def test_the_command_line_decides_over_the_file() -> None:
    from hutong.pipelines.declared.process.driver import session_settings

    request = Request(file="", folder="/s/web", run_id="1", settings={"b": "line"})
    assert session_settings(ENDLESS, request) == {"a": "file", "b": "line"}


def test_runs_that_end_keep_an_event_log() -> None:
    from hutong.pipelines.declared.process.driver import session_settings

    request = Request(file="", folder="/s/web", run_id="1")
    ending = replace(ENDLESS, trigger="batch")
    assert session_settings(ending, request)["spark.eventLog.dir"] == "file:///s/web/runs/1/events"
    assert EVENTS not in session_settings(replace(ending, event_log=False), request)
    assert EVENTS in session_settings(replace(ENDLESS, event_log=True), request)
    assert EVENTS not in session_settings(ending, replace(request, master="sc://host"))


def test_a_file_that_was_broken_since_is_recorded(tmp_path: Path) -> None:
    from hutong.pipelines.declared.process.driver import drive

    (tmp_path / "web.toml").write_text("[")
    run = PipelineFolder(tmp_path / "web").new_run("1")
    request = Request(file=str(tmp_path / "web.toml"), folder=str(tmp_path / "web"), run_id="1")
    assert drive(request, threading.Event(), ManualClock()) == 78
    record = run.read()
    assert record is not None
    assert (record.state, "is not TOML" in (record.error or "")) == (FAILED, True)
