"""`hutong run`: wrong words are answered in one sentence; the files of a module are watched; documents are printed."""

import json
import pathlib
import sys

import pytest
from tests.support.one_sentence import assert_one_sentence

from hutong.cli import main
from hutong.cli.handlers.watching import WatchedModule

PROGRAM = """
from hutong.handlers import App

app = App("localhost:9092", title="Billing")
other = 3


@app.topic("orders", group="billing")
async def bill(order: dict[str, int]) -> None: ...
"""


@pytest.fixture
def module(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Its name; it is in the current folder, and forgotten with the test."""
    name = f"billing_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("run MODULE:ap", 66, "has no ap; did you mean MODULE:app?"),
        ("run MODULE:nothing", 66, "has no nothing. Write MODULE:app."),
        ("run MODULE:other", 64, "is of the type int, not a hutong.handlers.App. Write MODULE:app."),
        ("run MODULEx:app", 66, "There is no module MODULEx; did you mean MODULE?"),
        ("run MODULE.py:app", 64, "is a file; write the module's name, as in `hutong run MODULE:app`"),
        ("run ./MODULE.py", 64, "as in `hutong run MODULE:app`"),
        ("run :app", 64, "names no module"),
        ("run :app --reload", 64, "names no module"),
        ("run MODULEx --workers 2", 66, "did you mean MODULE?"),
        ("run json", 66, "The module json has no app"),
        ("run quite.elsewhere:app", 66, "There is no module quite"),
        ("run MODULE --workers 0", 64, "from 1 to 256"),
        ("run MODULE --log-level loud", 64, "is no level"),
        ("run MODULE --bootstrap http://127.0.0.1:1", 64, "write it, without http://: 127.0.0.1:1."),
        ("run MODULE --workers 2 --bootstrap a:1,kafka://b:1", 64, "write it, without kafka://: b:1."),
    ],
)
def test_wrong_words(module: str, words: str, code: int, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert_one_sentence(words.replace("MODULE", module), code, sentence.replace("MODULE", module), capsys)


def test_several_apps_are_named(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    pathlib.Path(f"{module}.py").write_text(PROGRAM + "second = App('localhost:9092')\n")
    assert_one_sentence(f"run {module}", 64, f"Write {module}:app or {module}:second.", capsys)


def test_a_wrong_declaration_is_one_sentence(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    pathlib.Path(f"{module}.py").write_text(PROGRAM.replace(', group="billing"', ""))
    assert_one_sentence(f"run {module}", 64, "needs a group", capsys)


def test_the_document_is_printed(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["run", module, "--asyncapi"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["info"]["title"], list(document["channels"])) == ("Billing", ["orders", "orders_billing_dead"])


def test_the_page_is_printed(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["run", module, "--asyncapi-page"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!DOCTYPE html>")
    assert "<title>Billing</title>" in page


def test_changed_new_and_lost_files_are_found(module: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "notes.txt").write_text("not watched")
    watched = WatchedModule(f"{module}:app")
    assert watched.changed() == []
    (tmp_path / f"{module}.py").write_text(PROGRAM + "\n")
    (tmp_path / "new.py").write_text("")
    (tmp_path / "notes.txt").write_text("still not")
    assert watched.changed() == sorted([str(tmp_path / f"{module}.py"), str(tmp_path / "new.py")])
    (tmp_path / "new.py").unlink()
    assert watched.changed() == [str(tmp_path / "new.py")]
    assert watched.changed() == []


def test_a_package_is_watched_with_all_its_folders(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "watched_shop" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "watched_shop" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    watched = WatchedModule("watched_shop.orders:app")
    (inner / "rules.py").write_text("")
    (inner / ".hidden").mkdir()
    (inner / ".hidden" / "x.py").write_text("")
    assert watched.changed() == [str(inner / "rules.py")]
    assert "watched_shop" not in sys.modules
