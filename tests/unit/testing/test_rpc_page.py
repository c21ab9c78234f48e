"""docs/rpc-testing.md: its files, put together, pass as a suite of their own, and it names all that a test may use."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hutong.testing import Services

PAGE = (Path(__file__).parents[3] / "docs" / "rpc-testing.md").read_text()
BLOCKS = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
INI = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"


def test_the_files_of_the_page_pass(tmp_path: Path) -> None:
    files: dict[str, list[str]] = {"pytest.ini": [INI]}
    for name, text in BLOCKS:
        files.setdefault(name, []).append(text)
    for name, texts in files.items():
        (tmp_path / name).write_text("\n\n".join(texts))
    tests = PAGE.count("def test_")
    assert tests > 10
    words = ["-q", "--timeout", "60", "-p", "no:cacheprovider", "-p", "no:randomly"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert f"\n{tests} passed" in done.stdout, done.stdout


def test_every_block_is_of_a_file() -> None:
    assert len(BLOCKS) == PAGE.count("```python")


@pytest.mark.parametrize("name", sorted(name for name in dir(Services) if not name.startswith("_") and name != "close"))
def test_every_name_is_told(name: str) -> None:
    assert re.search(rf"^\| `{name}[`(]", PAGE, re.MULTILINE)


def test_what_the_table_says_of_parameters() -> None:
    told = dict(re.findall(r"^\| `(\w+)\((.*?)\)`", PAGE, re.MULTILINE))
    for name, parameters in told.items():
        known = set(inspect.signature(getattr(Services, name)).parameters)
        assert set(re.findall(r"\b([a-z]+)\b(?==|,|$)", parameters)) <= known
