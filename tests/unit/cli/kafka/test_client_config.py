"""Commands against a node that asks who they are: what `--client-config` says, and what refuses it."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.node import Node

from hutong.cli import main
from hutong.cli.kafka import client_config
from hutong.foundation.errors import UsageError
from hutong.server.bus.client_properties import read

PROPERTIES = """\
# how to get in
security.protocol = SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-512
sasl.username=alice
sasl.password=s3=cret
"""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node where alice has the password `s3=cret`."""
    folder = tmp_path_factory.mktemp("node")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO("s3=cret\n"))
        assert main.run(["user", "add", "alice", "--data-dir", str(folder / "data")]) == 0
    with Node(folder, "kafka.protocol=SASL_PLAINTEXT", "sasl.allow_without_tls=true") as running:
        yield running


def test_commands_get_in_with_their_properties(
    secured: Node, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, lines = tmp_path / "client.properties", tmp_path / "lines"
    file.write_text(f"{PROPERTIES}bootstrap.servers={secured.address}\n")
    lines.write_text("a\nb\n")
    told = ["--client-config", str(file)]
    assert main.run(["produce", "t", str(lines), *told]) == 0
    capfdbinary.readouterr()
    assert main.run(["consume", "t", *told]) == 0
    assert capfdbinary.readouterr().out == b"a\nb\n"
    monkeypatch.setenv(client_config.VARIABLE, str(file))
    assert main.run(["user", "list", "--json"]) == 0
    assert b"alice" in capfdbinary.readouterr().out


def test_a_wrong_password_is_told_soon_and_not_shown(
    secured: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, lines = tmp_path / "client.properties", tmp_path / "lines"
    file.write_text(PROPERTIES.replace("s3=cret", "s3=kret"))
    lines.write_text("a\n")
    for command in (["topic", "list"], ["produce", "t", str(lines)]):
        assert main.run([*command, "--bootstrap", secured.address, "--client-config", str(file)]) == 77
        told = capsys.readouterr().err
        assert "did not let us in" in told
        assert "kret" not in told


def test_properties_are_read_as_they_stand(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(PROPERTIES)
    assert read(file) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "s3=cret",
    }


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("sasl.kerberos.kinit.cmd=rm -r", "runs or loads programs"),
        ("plugin.library.paths=x.so", "runs or loads programs"),
        ("sasl.jaas.config=X required password=s3cret", "only Java reads"),
        ("s3cret", "is no property"),
        ("s3 cret=1", "is no property"),
    ],
)
def test_what_is_refused_in_a_file(tmp_path: Path, line: str, sentence: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(line)
    with pytest.raises(UsageError, match=sentence) as refused:
        read(file)
    assert "cret" not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["topic", "list", "--client-config", str(tmp_path / "nowhere")]) == 66
    assert "Cannot read" in capsys.readouterr().err
