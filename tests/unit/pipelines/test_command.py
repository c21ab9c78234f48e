"""`hutong pipeline`, as far as it goes without Spark and without a broker."""

import json
import socket
from pathlib import Path

import pytest

from hutong.cli.main import run


def test_the_jobs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "list", "--json"]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"access-log", "pagerank"} <= {job["name"] for job in listed}


def test_a_job_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "explain", "nonsense"]) == 66
    assert "there is no pipeline nonsense here" in capsys.readouterr().err


@pytest.mark.parametrize("job", ["access-log", "pagerank"])
def test_no_broker_is_told_before_spark_starts(job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    arguments = ["--bootstrap", address, "--topic", "t", "--output", str(tmp_path)]
    assert run(["pipeline", "run", job, *arguments]) == 69
    assert capsys.readouterr().err.startswith(f"hutong: no broker answers at {address}")


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--bootstrap", "nowhere"], 64, "--bootstrap: 'nowhere' is not an address of the form HOST:PORT"),
        (["--iterations", "0"], 64, "--iterations"),
    ],
)
def test_arguments_that_do_not_fit_are_told(
    arguments: list[str], code: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["pipeline", "run", "pagerank", "--topic", "t", "--output", str(tmp_path), *arguments]
    assert run(given) == code
    assert told in capsys.readouterr().err
