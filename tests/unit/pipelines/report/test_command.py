"""`hutong pipeline report` on the command line."""

import json
from pathlib import Path

import pytest
from tests.unit.pipelines.report.spark_events import as_bytes, whole_log

from hutong.cli.main import run
from hutong.pipelines.declared.run.run_folder import FINISHED, PipelineFolder, RunRecord


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which one pipeline has run."""
    monkeypatch.chdir(tmp_path)
    state = tmp_path / ".hutong" / "pipelines"
    made = PipelineFolder(state / "hours").new_run("1")
    made.write(RunRecord("1", "hours", "hours.toml", 1, 1, 400, FINISHED, "local[*]", ended_ms=900))
    (made.events / "local-1").write_bytes(as_bytes(whole_log()))
    return state


@pytest.mark.parametrize("named", [[], ["hours"], [".hutong/pipelines/hours"], [".hutong/pipelines/hours/runs/1"]])
def test_a_page_about_a_pipeline(state: Path, named: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "report", *named, "-o", "x.html"]) == 0
    assert capsys.readouterr().out == "x.html\n"
    assert "Query hours" in Path("x.html").read_text()


def test_what_the_page_counts(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "report", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "file": "report.html",
        "name": "hours",
        "run": "1",
        "state": FINISHED,
        "queries": 1,
        "batches": 2,
        "stages": 4,
        "failures": 0,
        "notes": [],
    }


def test_any_event_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log").write_bytes(as_bytes(whole_log())[:-30])
    assert run(["pipeline", "report", "--event-log", "log"]) == 0
    assert "The last event is cut off." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["hours", "--url", "http://127.0.0.1:1"], 64, "give one of a pipeline, --event-log and --url"),
        (["--run", "1", "--url", "http://127.0.0.1:1"], 64, "--run chooses among the runs of a pipeline"),
        (["--url", "http://127.0.0.1:1"], 69, "there is no driver of Spark at http://127.0.0.1:1"),
        (["--event-log", "nothing"], 66, "there is no event log at nothing"),
        (["--run", "7"], 66, "pipeline hours has no run 7: the newest are 1"),
        (["-o", "nowhere/x.html"], 73, "nowhere/x.html cannot be written: No such file or directory"),
        (["tests"], 66, "tests is no folder of a pipeline"),
    ],
)
def test_mistakes(state: Path, arguments: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("tests").mkdir()
    assert run(["pipeline", "report", *arguments]) == code
    assert capsys.readouterr().err.startswith(f"hutong: {told}")


def test_where_none_or_several_have_run_one_is_to_be_named(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    PipelineFolder(state / "days").new_run("1")
    assert run(["pipeline", "report"]) == 66
    assert "several pipelines have run here, name one of days, hours" in capsys.readouterr().err
    assert run(["pipeline", "report", "--state", "elsewhere"]) == 66
    assert "no pipeline has run here" in capsys.readouterr().err
