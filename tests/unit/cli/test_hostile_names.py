"""Names on the command line that are paths, or nothing at all: no file outside the folder is imported or read."""

import sys
from pathlib import Path

import pytest

from hutong.cli.loading import load
from hutong.cli.pipeline.showing import folder_named
from hutong.foundation.errors import UsageError

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
