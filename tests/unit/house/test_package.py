"""The files of an installation and of a source archive: every file of the packages, and the sources of a build."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE_ONLY = {".c", ".h"}


def _setup(*words: str | Path) -> None:
    pytest.importorskip("setuptools")
    subprocess.run([sys.executable, "setup.py", "-q", *words], cwd=ROOT, check=True, capture_output=True, timeout=110)


def _tracked(*folders: str) -> set[str]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no git here to say which files there are")
    listed = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, check=True, capture_output=True, text=True)
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def test_a_wheel_holds_every_file_of_the_packages(tmp_path: Path) -> None:
    expected = {name.removeprefix("src/") for name in _tracked("src") if Path(name).suffix not in SOURCE_ONLY}
    _setup("build_py", "--build-lib", tmp_path)
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()} == expected


def test_a_source_archive_holds_what_a_build_and_the_tests_need(tmp_path: Path) -> None:
    needed = _tracked("src", "tests", "bench", "docs", "examples", "setup.py", "pyproject.toml", "README.md", "LICENSE")
    _setup("sdist", "--formats", "gztar", "--dist-dir", tmp_path)
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}
    assert needed <= held
    assert not [name for name in held if name.endswith((".so", ".pyc", ".nbi"))]
