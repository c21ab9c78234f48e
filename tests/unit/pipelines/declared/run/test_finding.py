"""Which pipeline a user means."""

from pathlib import Path

import pytest

from hutong.foundation.errors import UsageError
from hutong.pipelines.declared.run.finding import find, folder_of, pipelines_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.toml").write_text('[pipeline]\nname = "web"\n')
    (tmp_path / "b.py").write_text("from hutong.pipelines.declared import Pipeline\npipeline = Pipeline(name='b')\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    (tmp_path / "broken.toml").write_text("[")
    (tmp_path / "other.py").write_text("print('Pipeline(')\n")
    return tmp_path


def test_only_pipelines_are_listed(folder: Path) -> None:
    assert [(one.name, one.file.name) for one in pipelines_in(folder)] == [("b", "b.py"), ("web", "a.toml")]
    assert pipelines_in(folder / "absent") == []


@pytest.mark.parametrize(("wanted", "name"), [("web", "a.toml"), ("a", "a.toml"), ("b", "b.py"), ("./b.py", "b.py")])
def test_a_pipeline_is_found_by_name_and_by_file(wanted: str, name: str, folder: Path) -> None:
    assert find(wanted, folder).name == name


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (None, "say which pipeline: there are b, web"),
        ("wep", "there is no pipeline wep here; did you mean web?"),
        ("aa.toml", "there is no file aa.toml; did you mean a.toml?"),
    ],
)
def test_one_that_is_not_found_is_told(wanted: str | None, told: str, folder: Path) -> None:
    with pytest.raises(UsageError) as error:
        find(wanted, folder)
    assert told in str(error.value)


def test_the_only_one_needs_no_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no pipeline here: make one with hutong pipeline init NAME"):
        find(None, tmp_path)
    (tmp_path / "a.toml").write_text('[pipeline]\nname = "web"\n')
    assert find(None, tmp_path) == tmp_path / "a.toml"


def test_two_files_of_one_name_are_told(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text('[pipeline]\nname = "web"\n')
    with pytest.raises(UsageError, match=r"several files hold a pipeline web: a\.toml, b\.toml"):
        find("web", tmp_path)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../../x", "/etc", "a/b", "a\0b", "a\n", "a" * 101, "ä", "A", "-a", "~", "${HOME}"]
)
def test_a_name_leads_nowhere_but_to_its_own_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="take small letters, digits and dashes, at most 100"):
        folder_of(tmp_path / "a.toml", name, None)
    assert folder_of(tmp_path / "a.toml", "a-1", None).path == tmp_path / ".hutong" / "pipelines" / "a-1"
