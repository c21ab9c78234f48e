"""Pipelines in the console: what their folder tells, and reports that run nothing."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http_json import JsonClient
from tests.unit.console.scene import ConsoleClient
from tests.unit.pipelines.report.spark_events import as_bytes, whole_log

from hutong.cli.node.pipeline_folders import FolderPipelines
from hutong.pipelines.declared.run.run_folder import FINISHED, PipelineFolder, RunRecord
from hutong.testing import EmbeddedNode


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which one pipeline has run, and another one has only begun."""
    state = tmp_path_factory.mktemp("pipelines")
    made = PipelineFolder(state / "hours").new_run("1")
    made.write(RunRecord("1", "hours", "hours.toml", 1, 1, 400, FINISHED, "local[*]", ended_ms=900))
    (made.events / "local-1").write_bytes(as_bytes(whole_log()))
    PipelineFolder(state / "new").new_run("1")
    return state


@pytest.fixture(scope="module")
def client(state: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleClient]:
    folder = tmp_path_factory.mktemp("node")
    words = ["serve", "--data-dir", str(folder), "--kafka", "127.0.0.1:0", "--console", "127.0.0.1:0", "--json"]
    command = [sys.executable, "-m", "hutong", *words, "--set", f"console.pipelines={state}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        client = ConsoleClient.__new__(ConsoleClient)
        JsonClient.__init__(client, json.loads(process.stdout.readline())["console"])
        yield client.begin()
        process.terminate()


def test_each_pipeline_with_its_state(client: ConsoleClient) -> None:
    told = client.value("GET", "/api/pipelines")
    assert told["has_folder"] is True
    assert [(row["name"], row["state"]) for row in told["pipelines"]] == [("hours", FINISHED), ("new", "never run")]


def test_a_report_is_a_page_that_runs_nothing(client: ConsoleClient) -> None:
    answer = client.ask("GET", "/api/pipelines/hours/report")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"Query hours" in answer.body
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "sandbox" in policy
    assert "script-src" not in policy


@pytest.mark.parametrize("name", ["new", "nothing", "..", "..%2F..%2Fetc", "Hours", "x" * 200])
def test_reports_that_are_not_there(client: ConsoleClient, name: str) -> None:
    assert client.ask("GET", f"/api/pipelines/{name}/report").status == 404


def test_a_folder_that_is_not_there_has_no_pipelines(tmp_path: Path) -> None:
    assert FolderPipelines(tmp_path / "nowhere").rows() == []


def test_a_console_without_a_folder_says_so(node: EmbeddedNode) -> None:
    client = ConsoleClient(node).begin()
    assert client.value("GET", "/api/pipelines") == {"has_folder": False, "pipelines": []}
    assert client.ask("GET", "/api/pipelines/hours/report").status == 404
