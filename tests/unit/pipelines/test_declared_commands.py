"""`hutong pipeline init | validate | run | list | status | stop`, as far as they go without Spark and a broker."""

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.node import Node

from hutong.cli.main import run
from hutong.pipelines.declared.run.run_folder import FAILED, FINISHED, RUNNING, PipelineFolder, RunRecord

PROGRESS = {
    "id": "1",
    "name": "out",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "batchId": 7,
    "numInputRows": 100,
    "durationMs": {"triggerExecution": 500},
    "sources": [{"endOffset": {"web": {"0": 5}}, "latestOffset": {"web": {"0": 9}}}],
}
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUTONG_BOOTSTRAP", "127.0.0.1:9092")
    return tmp_path


def rows(capsys: Captured) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def a_run(folder: Path, state: str, **values: object) -> PipelineFolder:
    pipeline = PipelineFolder(folder / ".hutong" / "pipelines" / "web")
    kept = pipeline.new_run("0001")
    record = RunRecord("0001", "web", str(folder / "web.toml"), 1, 1, 1_000, state, "local[*]")
    kept.write(replace(record, **values))  # type: ignore[arg-type]
    kept.append_progress(json.dumps(PROGRESS))
    return pipeline


def test_a_new_pipeline_is_valid_and_listed(capsys: Captured) -> None:
    assert run(["pipeline", "init", "web", "--topic", "web"]) == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("web.toml\n", "next: check it with hutong pipeline validate web\n")
    assert run(["pipeline", "validate", "--offline", "--quick"]) == 0
    assert capsys.readouterr().err == "pipeline web is fine; checked: file\n"
    assert run(["pipeline", "list", "--json"]) == 0
    assert {"name": "web", "kind": "pipeline", "state": "never run", "summary": "web.toml"} in rows(capsys)


def test_all_problems_are_told_with_their_places(folder: Path, capsys: Captured) -> None:
    (folder / "web.toml").write_text('[pipeline]\nname = "web"\n[sources.a]\ntopik = "x"\n')
    assert run(["pipeline", "validate", "--offline", "--quick"]) == 78
    told = capsys.readouterr()
    assert "sources.a.topik: is not known here; did you mean topic?" in told.out
    assert "sinks: there is none" in told.out
    assert told.err == "hutong: web.toml has 3 problems\n"
    assert run(["pipeline", "validate", "--offline", "--quick", "--json"]) == 78
    document = json.loads(capsys.readouterr().out)
    assert (document["valid"], len(document["problems"])) == (False, 3)
    assert run(["pipeline", "run", "--offline"]) == 78
    assert "pipeline web cannot run:\n  sources.a.topik" in capsys.readouterr().err


def test_mistakes_of_the_file_and_topics_that_are_not_there_are_told_at_once(folder: Path, capsys: Captured) -> None:
    (folder / "node").mkdir()
    with Node(folder / "node") as node:
        for number in range(12):
            assert run(["topic", "create", f"t{number:02}", "--bootstrap", node.address]) == 0
        assert run(["topic", "create", "web-requests", "--bootstrap", node.address]) == 0
        (folder / "web.toml").write_text(
            f'[pipeline]\nname = "web"\nbootstrap = "{node.address}"\ntriger = "1 minute"\n'
            '[sources.a]\ntopic = "web-request"\n[sources.b]\ntopic = "t00"\nvalue_format = "jsn"\n'
            '[transform]\nsql = "SELECT * FROM a"\n[sinks.o]\ntopic = "t01"\n'
        )
        capsys.readouterr()
        assert run(["pipeline", "validate", "--quick"]) == 78
    told = capsys.readouterr()
    assert "pipeline.triger: is not known here; did you mean trigger?" in told.out
    assert "sources.b.value_format: is 'jsn'; did you mean json?" in told.out
    assert f"there is no topic web-request at {node.address}; did you mean web-requests?" in told.out
    assert told.err.endswith("web.toml has 3 problems\n")


@pytest.mark.parametrize("words", [["run"], ["validate"], ["stop"], ["explain"], ["run", "--once"]])
def test_an_empty_folder_is_told(words: list[str], capsys: Captured) -> None:
    assert run(["pipeline", *words]) == 66
    assert capsys.readouterr().err == "hutong: there is no pipeline here: make one with hutong pipeline init NAME\n"


def test_no_broker_is_told_before_spark_starts(folder: Path, capsys: Captured) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    assert run(["pipeline", "init", "web", "--topic", "web", "--bootstrap", address]) == 0
    assert run(["pipeline", "run"]) == 69
    assert f"sources.records.bootstrap: no broker answers at {address}" in capsys.readouterr().err
    assert not (folder / ".hutong").exists()


def test_running_takes_a_file_or_a_job(capsys: Captured) -> None:
    assert run(["pipeline", "run", "--help"]) == 0
    assert "Run a pipeline until its input ends" in capsys.readouterr().out
    assert run(["pipeline", "run", "pagerank", "--help"]) == 0
    assert "--iterations" in capsys.readouterr().out
    assert run(["pipeline", "run", "absent", "--once"]) == 66
    assert capsys.readouterr().err == "hutong: there is no pipeline absent here\n"


def test_the_state_of_a_run_is_told(folder: Path, capsys: Captured) -> None:
    pipeline = a_run(folder, RUNNING)
    with pipeline.locked():
        assert run(["pipeline", "status", "--json"]) == 0
    (row,) = rows(capsys)
    assert (row["name"], row["state"], row["query"], row["batch"]) == ("web", "running", "out", 7)
    assert (row["rows_per_second"], row["batch_ms"], row["lag"]) == (200.0, 500, {"web": 4})
    assert run(["pipeline", "status", "web"]) == 0
    assert "died" in capsys.readouterr().out


@pytest.mark.parametrize(("state", "told"), [(FINISHED, "finished"), (FAILED, "failed")])
def test_how_a_run_ended_is_told(state: str, told: str, folder: Path, capsys: Captured) -> None:
    a_run(folder, state, error="it broke" if state == FAILED else None, ended_ms=2_000)
    assert run(["pipeline", "status"]) == 0
    shown = capsys.readouterr().out
    assert told in shown
    assert ("it broke" in shown) == (state == FAILED)
    assert run(["pipeline", "stop", "web"]) == 0
    assert capsys.readouterr().err == "pipeline web is not running\n"


def test_nothing_that_ran_is_told(capsys: Captured) -> None:
    assert run(["pipeline", "status"]) == 66
    assert "no pipeline has run here" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../../elsewhere", "/", "", "a\\u0000b"])
def test_a_pipeline_whose_name_leads_elsewhere_touches_nothing(name: str, folder: Path, capsys: Captured) -> None:
    (folder / "elsewhere" / "runs").mkdir(parents=True)
    text = f'[pipeline]\nname = "{name}"\n[sources.a]\ntopic = "t"\n[sinks.o]\nkind = "console"\n'
    (folder / "a.toml").write_text(text)
    before = sorted(folder.rglob("*"))
    assert run(["pipeline", "list", "--json"]) == 0
    assert rows(capsys)[-1]["state"] == "not a valid name"
    for words in (
        ["run", "--offline"],
        ["status", "a"],
        ["stop", "a"],
        ["report", "a"],
        ["validate", "--offline", "--quick"],
    ):
        assert run(["pipeline", *words]) == 78
        told = capsys.readouterr()
        assert "take small letters, digits and dashes" in told.out + told.err
    assert sorted(folder.rglob("*")) == before


def test_a_pipeline_that_is_just_starting_is_not_stopped_by_a_signal_to_everybody(
    folder: Path, capsys: Captured
) -> None:
    pipeline = a_run(folder, RUNNING)
    with pipeline.locked():
        (pipeline.path / "lock").write_bytes(b"")
        assert run(["pipeline", "stop", "web"]) == 75
    assert "pipeline web is just starting or ending: try again" in capsys.readouterr().err
