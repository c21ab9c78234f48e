"""`hutong rpc`: what it prints, and the sentence where it cannot."""

from pathlib import Path

import pytest
from tests.support.one_sentence import assert_one_sentence

from hutong.cli import main

SHOP = "tests.support.grpc_shop"
SERVICES = "tests.compat.grpc_services"


def test_the_proto_is_printed_and_can_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["rpc", "proto", f"{SHOP}:EveryKind", "--package", "kinds.v1"]) == 0
    text = capsys.readouterr().out
    assert text.startswith('syntax = "proto3";\n\npackage kinds.v1;\n')
    assert "service EveryKind {" in text
    kept = tmp_path / "kinds.proto"
    kept.write_text(text)
    assert main.run(["rpc", "proto", f"{SHOP}:EveryKind", "--package", "kinds.v1", "--check", str(kept)]) == 0
    assert capsys.readouterr().out == ""
    kept.write_text(text.replace("string author = 2", "string author = 3"))
    assert main.run(["rpc", "proto", f"{SHOP}:EveryKind", "--package", "kinds.v1", "--check", str(kept)]) == 65
    told = capsys.readouterr().err
    assert "-  optional string author = 3;\n+  optional string author = 2;\n" in told
    assert f"print it anew with `hutong rpc proto {SHOP}:EveryKind" in told


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("rpc proto shop", 64, "'shop' names no protocol; write MODULE:PROTOCOL"),
        ("rpc proto no_such_module:Orders", 66, "There is no module no_such_module"),
        (f"rpc proto {SHOP}:Nothing", 66, f"The module {SHOP} has no Nothing"),
        (f"rpc proto {SHOP}:Item", 64, "Item is no service: decorate its Protocol with @service"),
        (f"rpc proto {SHOP}:EveryKind --check /nowhere/kinds.proto", 66, "No such file or directory"),
        ("rpc proto ..:Orders", 66, "The module .. cannot be imported"),
        (f"rpc serve {SERVICES}:nothing --grpc 127.0.0.1:0", 66, f"The module {SERVICES} has no nothing"),
        (f"rpc serve {SERVICES}:Shop --grpc 127.0.0.1:0", 64, "Shop is no function of one argument"),
        (f"rpc serve {SERVICES}:bind --grpc nowhere", 64, "'nowhere' is no address for gRPC"),
        (f"rpc serve {SERVICES}:bind --listen nowhere", 64, "write HOST:PORT"),
        (f"rpc serve {SERVICES}:bind --grpc 127.0.0.1:0 --log-level loud", 64, "--log-level loud is no level"),
        (f"rpc serve {SERVICES}:bind --listen 127.0.0.1:0 --grpc-certificate x", 64, "is for --grpc HOST:PORT"),
        ("rpc serve builtins:callable --grpc 127.0.0.1:0", 64, "builtins:callable has bound no service"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    command: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_one_sentence(command, code, words, capsys)


def test_a_module_that_needs_another_one_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "needy_services.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main.run(["rpc", "proto", "needy_services:Orders"]) == 66
    assert capsys.readouterr().err == (
        "hutong: The module needy_services needs not_installed_anywhere, which is not installed.\n"
    )
