"""docs/handlers.md: its test passes as a suite of its own. Its programs run in tests/unit/house/test_pages.py."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[3] / "docs" / "handlers.md").read_text()


def test_the_test_of_the_page_passes(tmp_path: Path) -> None:
    [block] = [block for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S) if "def test_" in block]
    (tmp_path / "test_orders.py").write_text(block)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestConfigWarning"],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert "1 passed" in done.stdout, done.stdout
