"""Names on the command line that are paths, or nothing at all: no file outside the folder is imported or read."""

import sys
from pathlib import Path

import pytest

from hutong.cli import main
from hutong.cli.loading import load
from hutong.cli.options import group_name, topic_name
from hutong.cli.pipeline.showing import folder_named
from hutong.foundation.errors import ExitCode, UsageError

OUTSIDE = "raise SystemExit('it was imported')"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands run in; beside it a module and a pipeline that nobody may reach by a name."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "evil.py").write_text(OUTSIDE)
    (tmp_path / "evil" / "runs").mkdir(parents=True)
    (tmp_path / "evil.toml").write_text('[pipeline]\nname = "evil"\n')
    monkeypatch.chdir(inside)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return inside


MODULES = [
    "../evil",
    "..evil",
    ".evil",
    "..",
    ".",
    "a/../../evil",
    "a..evil",
    "a\0b",
    "\udc80",
    " ",
    "-",
    "evil/",
    "x" * 5_000,
]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_no_path(name: str, folder: Path) -> None:
    for module in (name, name.replace("../", f"{folder.parent}/")):
        with pytest.raises(UsageError):
            load(f"{module}:Protocol", "Protocol")


@pytest.mark.parametrize("name", ["__..", "..x", "", "a." * 5_000, "../evil"])
def test_a_name_in_a_module_is_no_path(name: str) -> None:
    with pytest.raises(UsageError):
        load(f"json:{name}", "Protocol")


@pytest.mark.parametrize("name", ["..", "../evil", "/evil", "evil/../../evil", "a\0b", "\udc80", "", " ", "x" * 5_000])
def test_the_name_of_a_pipeline_leads_to_no_other_folder(name: str, folder: Path) -> None:
    with pytest.raises(UsageError):
        folder_named(name, folder / "state")


WRONG_TOPICS = ["", " ", ".", "..", "a/b", "../evil", "a b", "a\nb", "a\0b", "\udc80", "t\u00e9", "x" * 250]
WRONG_GROUPS = ["", "a\0b", "\udc80", "x" * 4_097, "\u00e9" * 2_049]
TOPIC_COMMANDS = [
    "topic create NAME",
    "topic describe NAME",
    "topic alter NAME --partitions 2",
    "topic delete good NAME --yes",
    "produce NAME",
    "consume NAME",
    "tail NAME",
    "group reset good --to end --topic NAME",
    "dump DIR --topic NAME",
    "pipeline init good --topic NAME",
    "pipeline run access-log --output DIR --topic NAME",
]
GROUP_COMMANDS = [
    "group describe NAME",
    "group reset NAME --topic good --to end",
    "group delete good NAME --yes",
    "consume good --group NAME",
    "actor list good NAME",
    "actor set NAME --priority 2",
    "actor suspend NAME",
    "actor resume NAME",
]


def refused(command: str, name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The sentence about a name; the command must have sent nothing, since no broker runs."""
    assert main.run([name if word == "NAME" else word for word in command.split()]) == ExitCode.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert len(printed.err) < 400
    return printed.err


@pytest.mark.parametrize("command", TOPIC_COMMANDS)
@pytest.mark.parametrize("name", WRONG_TOPICS)
def test_no_command_takes_a_name_that_no_topic_can_have(
    name: str, command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "topic" in refused(command, name, capsys)


@pytest.mark.parametrize("command", GROUP_COMMANDS)
@pytest.mark.parametrize("name", WRONG_GROUPS)
def test_no_command_takes_a_name_that_no_group_can_have(
    name: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "group" in refused(command, name, capsys)


@pytest.mark.parametrize("name", ["a", "a.b_c-9", "...", "x" * 249])
def test_names_that_a_topic_can_have(name: str) -> None:
    assert topic_name(name) == name


@pytest.mark.parametrize("name", ["a", "..", "a b/c", "t\u00e9", "x" * 250, "x" * 4_096])
def test_names_that_a_group_can_have(name: str) -> None:
    assert group_name(name) == name


@pytest.mark.parametrize("expiry", ["nan", "inf", "-inf", "-1", "-0.001"])
def test_an_expiry_is_a_number_of_seconds(expiry: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--expiry" in refused(f"actor set NAME --expiry={expiry}", "good", capsys)
