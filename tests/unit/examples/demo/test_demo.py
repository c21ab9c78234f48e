"""The whole demo as a user runs it: a process, its exit code, its document and what it leaves behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from hutong.cli import main

DEADLINE_SECONDS = 280
LOG = """\
1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 10 "-" "agent"
1.2.3.4 - - [17/May/2015:11:05:03 +0000] "GET /b HTTP/1.1" 404 - "-" "agent
1.2.3.4 - - [17/May/2015:11:05:03 +0000] "GET /a HTTP/1.1" 301 7 "-" "agent"
"""


@pytest.mark.spark
@pytest.mark.timeout(DEADLINE_SECONDS + 20)
def test_the_demo_finds_what_it_sent_and_leaves_the_node_up_when_told(tmp_path: Path) -> None:
    (tmp_path / "access.log").write_text(LOG)
    words = ["demo", "--json", "--keep-running", "--data-dir", "data", "--access-log", "access.log"]
    done = subprocess.run(
        [sys.executable, "-m", "hutong", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    node = psutil.Process(int(done.stderr.split()[-1]))
    try:
        found = json.loads(done.stdout)
        assert found["faults"] == []
        counts = [(row["produced"], row["acknowledged"], row["consumed"], row["processed"]) for row in found["streams"]]
        assert all(len(set(row)) == 1 and row[0] > 0 for row in counts)
        assert counts[1][0] == LOG.count("\n")
        assert [row["requests"] for row in found["hours"]] == [1, 1]
        assert found["paths"] == [{"path": "/a", "requests": 2}]
        assert "sys" in [row["module"] for row in found["modules"][:3]]
        assert (Path(found["output_dir"]) / "pagerank" / "ranks.csv").is_file()
        assert main.run(["topic", "describe", "demo.import-graph", "--bootstrap", found["bootstrap"]]) == 0
    finally:
        node.send_signal(signal.SIGTERM)
        node.wait(20)


def test_a_log_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["demo", "--access-log", "/nowhere/access.log"]) == 66
    assert capsys.readouterr().err == "hutong: /nowhere/access.log is no file that you may read.\n"


def test_a_node_that_does_not_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "node").touch()  # where the node's own folder would be
    assert main.run(["demo", "--data-dir", os.fspath(tmp_path)]) == 69
    assert "The node did not start: hutong: Cannot use the data folder" in capsys.readouterr().err
