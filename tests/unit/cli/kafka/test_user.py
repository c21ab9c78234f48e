"""`hutong user`: on a node that runs, and in the folder of one that does not."""

import io
import json
import sys
from pathlib import Path

import pytest
from tests.support.node import Node

from hutong.cli import main


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    """The content of standard input."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("s3cret word\n"))


def _rows(captured: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    return [json.loads(line) for line in captured.readouterr().out.splitlines()]


@pytest.mark.usefixtures("password")
def test_users_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--data-dir", str(tmp_path / "data")]
    assert main.run(["user", "add", "alice", *folder]) == 0
    assert main.run(["user", "list", "--json", *folder]) == 0
    both = "SCRAM-SHA-256 SCRAM-SHA-512"
    assert _rows(capsys) == [{"user": "alice", "mechanisms": both, "iterations": "8192 8192"}]
    assert main.run(["user", "remove", "alice", "--yes", *folder]) == 0
    assert main.run(["user", "list", "--json", *folder]) == 0
    assert _rows(capsys) == []
    assert main.run(["user", "remove", "alice", "--yes", *folder]) == 66
    assert "There is no user alice" in capsys.readouterr().err
    assert main.run(["user", "list", "--data-dir", str(tmp_path / "nowhere")]) == 66
    assert not (tmp_path / "nowhere").exists()


def test_users_of_a_node(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUTONG_USER_PASSWORD", "s3cret")
    with Node(tmp_path) as node:
        bootstrap = ["--bootstrap", node.address]
        assert main.run(["user", "add", "alice", "-m", "SCRAM-SHA-512", "--iterations", "4096", *bootstrap]) == 0
        assert main.run(["user", "list", "--json", *bootstrap]) == 0
        assert _rows(capsys) == [{"user": "alice", "mechanisms": "SCRAM-SHA-512", "iterations": "4096"}]
        assert main.run(["user", "list", "--data-dir", str(tmp_path / "data")]) == 75  # it is in use
        assert main.run(["user", "remove", "alice", "--yes", *bootstrap]) == 0
        assert main.run(["user", "remove", "alice", "--yes", *bootstrap]) == 66
        assert "There is no user alice" in capsys.readouterr().err


def test_no_password_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert main.run(["user", "add", "alice", "--data-dir", str(tmp_path / "data")]) == 65
    assert "A password has from 1" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
