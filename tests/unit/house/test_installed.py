"""The wheel and the source archive, installed into empty environments; and the README as an index shows it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
REPOSITORY = "https://example.org/hutong/hutong"


def described(**variables: str) -> str:
    """The long description that a build takes, in the folder of a source archive."""
    pytest.importorskip("setuptools")
    command = [sys.executable, "setup.py", "-q", "--long-description"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HUTONG_RE")} | variables
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, env=environment, timeout=110)
    return done.stdout


def test_an_index_gets_a_readme_with_absolute_links() -> None:
    text = described(HUTONG_REPOSITORY=REPOSITORY, HUTONG_REFERENCE="v1")
    relative = re.findall(r"\]\((?!https?:|#)([^)]*)\)", text)
    assert relative == []
    assert (
        f"![A terminal: a node is started, records are sent and read]({REPOSITORY}/raw/v1/docs/figures/session.svg)"
        in text
    )
    assert f"[Getting started]({REPOSITORY}/blob/v1/docs/getting-started.md)" in text


def test_without_a_repository_the_readme_is_as_it_stands() -> None:
    assert described().strip() == (ROOT / "README.md").read_text().strip()


@pytest.mark.long
def test_wheel_and_archive_serve_in_empty_environments(tmp_path: Path) -> None:
    uv = ROOT / ".tools" / "uv"
    if not uv.exists() or shutil.which("git") is None:
        pytest.skip("uv is elsewhere here")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=False, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("no git here to say which files there are")
    source = tmp_path / "source"
    for name in tracked.stdout.splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    command = ["sh", ".ci/test-wheel", str(uv), sys.executable]
    done = subprocess.run(command, cwd=source, check=False, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wheel and archive: installed, served, produced and consumed" in done.stdout
