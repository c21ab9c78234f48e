"""Command lines that need no broker: errors are one sentence and a code of sysexits.h."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.one_sentence import assert_one_sentence

from hutong.cli import main
from hutong.foundation.errors import CorruptData, DiskFull, FlushFailed, HutongError, LimitExceeded, UsageError

SERVICES = "tests.compat.grpc_services"


@pytest.fixture(autouse=True)
def _no_settings_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUTONG_BOOTSTRAP", raising=False)
    monkeypatch.delenv("HUTONG_CONFIG", raising=False)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("frobnicate", 64, "No such command 'frobnicate'"),
        ("topic lst", 64, "Did you mean 'list'?"),
        ("topic create", 64, "Missing argument 'TOPIC'"),
        ("topic create t --partitions none", 64, "--partitions"),
        ("topic create t --config retention.ms", 64, "write --config name=value"),
        ("topic alter t", 64, "Nothing to change"),
        ("topic delete t", 64, "repeat the command with --yes"),
        ("topic list --bootstrap localhost", 64, "'localhost' is no broker address"),
        ("topic list --bootstrap localhost:x", 64, "write HOST:PORT"),
        ("topic list --bootstrap http://127.0.0.1:1", 64, "write it, without http://: 127.0.0.1:1."),
        ("bus send a 1 --bridge http://127.0.0.1:1/x", 64, "without http://: 127.0.0.1:1."),
        ("rpc list --node tcp://127.0.0.1:1", 64, "without tcp://: 127.0.0.1:1"),
        ("bus publish a {x:1}", 65, "The body begins as JSON and is none"),
        ("bus request a [1,", 65, "send it as text with --text"),
        ("doctor", 64, "Which data folder?"),
        ("dump", 64, "Which data folder?"),
        ("doctor /a --data-dir /b", 64, "The data folder is named twice"),
        ("doctor --data-dir /nowhere", 66, "/nowhere is no data folder of a node"),
        ("topic list --bootstrap 127.0.0.1:1", 69, "start one with `hutong serve`"),
        ("produce t /nowhere/at-all", 66, "/nowhere/at-all is no file that you may read"),
        ("produce t --header name --bootstrap 127.0.0.1:1", 64, "write --header name=value"),
        ("produce t --acks 2", 64, "--acks"),
        ("consume t --from yesterday", 64, "'yesterday' is no position"),
        ("consume t --group g --from end", 64, "A group decides what is read"),
        ("group reset g --topic t --to 1,5", 64, "'1,5' is no position"),
        ("group delete g", 64, "repeat the command with --yes"),
        ("serve --bogus", 64, "unrecognized arguments: --bogus; `hutong serve --help` lists"),
        ("serve --kafak 127.0.0.1:1", 64, "unrecognized arguments: --kafak 127.0.0.1:1; did you mean --kafka?"),
        ("serve --datadir=d", 64, "did you mean --data-dir?"),
        ("console --bootstrap http://127.0.0.1:1", 64, "write it, without http://: 127.0.0.1:1."),
        ("console --bootstrap nowhere", 64, "write HOST:PORT"),
        ("serve now", 64, "unrecognized arguments: now; `hutong serve --help` lists"),
        ("serve --set log.qos", 64, "write --set section.key=value"),
        ("serve --set log.qas=receive", 78, "did you mean log.qos?"),
        ("serve --kafka nowhere", 78, "write HOST:PORT"),
        ("serve --kafka http://127.0.0.1:1", 78, "without http://: 127.0.0.1:1"),
        ("serve --log-level loud", 78, "choose debug or info or warning or error"),
        ("config --set log.qos=fast", 78, "choose receive or persistence"),
        ("config --config /nowhere/hutong.toml", 66, "No such file or directory"),
    ],
)
def test_an_error_is_one_sentence_on_standard_error(
    command: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_one_sentence(command, code, words, capsys)


@pytest.mark.parametrize("command", ["console --bootstrap 127.0.0.1:TAKEN", f"rpc serve {SERVICES}:bind"])
def test_a_port_in_use_is_an_error_that_names_the_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = f"{command.replace('TAKEN', port)} --listen 127.0.0.1:{port}"
        assert_one_sentence(words, 69, "Address already in use; choose another address with --listen.", capsys)


@pytest.mark.parametrize("command", ["--help", "serve --help", "topic --help", "topic create --help", "consume -h"])
def test_help_is_not_an_error(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(command.split()) == 0
    assert "usage" in capsys.readouterr().out.lower()


def test_the_help_of_serve_is_the_same_by_both_doors(capsys: pytest.CaptureFixture[str]) -> None:
    from hutong.cli.app import run_app

    main.run(["serve", "--help"])
    direct = capsys.readouterr().out
    run_app(["serve", "--help"])
    assert capsys.readouterr().out == direct


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("hutong ")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x", 73), 73),
        (CorruptData("x"), 65),
        (DiskFull("x"), 73),
        (FlushFailed("x"), 74),
        (LimitExceeded("x", 1), 69),
        (HutongError("x"), 70),
    ],
)
def test_every_error_of_ours_has_an_exit_code(
    error: HutongError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr("hutong.cli.app.run_app", refuse)
    assert main.run(["topic"]) == code
    assert capsys.readouterr().err == f"hutong: {error}\n"


def test_an_error_that_is_our_fault_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(arguments: list[str]) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr("hutong.cli.app.run_app", break_down)
    with pytest.raises(ZeroDivisionError):
        main.run(["topic"])


def test_config_as_json_tells_values_and_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "hutong.toml"
    file.write_text("[topic]\ndefault_partitions = 3\n")
    monkeypatch.setenv("HUTONG_LOG_QOS", "receive")
    command = ["config", "--json", "--changed", "--config", str(file), "--set", "node.id=7"]
    assert main.run(command) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(row["setting"], row["value"], row["source"]) for row in rows} == {
        ("topic.default_partitions", "3", str(file)),
        ("log.qos", "receive", "HUTONG_LOG_QOS"),
        ("node.id", "7", "flag"),
    }


def test_config_as_a_table_names_kafkas_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["config"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("log.segment_bytes"))
    assert line.split() == ["log.segment_bytes", "134217728", "default", "log.segment.bytes"]


@pytest.mark.parametrize(
    ("package", "command"),
    [("typer", "topic list"), ("rich", "config"), ("confluent_kafka", "topic list"), ("psutil", "demo")],
)
def test_a_missing_package_is_told_with_the_extra_that_brings_it(package: str, command: str) -> None:
    assert package in main.COMMAND_PACKAGES
    if command == "demo":
        pytest.importorskip("pyspark", reason="the demo asks for Spark first")
    program = f"import sys; sys.modules[{package!r}] = None; from hutong.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *command.split()], capture_output=True, text=True, check=False
    )
    assert done.stderr == (
        f"hutong: This command needs the package {package}, which is not installed: pip install 'hutong[cli]'.\n"
    )
    assert done.returncode == 69
