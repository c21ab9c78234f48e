"""The program on the bus's page prints what the page says."""

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_program_prints_what_the_page_says() -> None:
    program = [sys.executable, str(DOCS / "examples" / "bus.py")]
    run = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60)
    assert f"```text\n{run.stdout}```" in (DOCS / "bus.md").read_text()
    warnings = run.stderr.splitlines()
    assert len(warnings) == 1
    assert "'kitchen.wash' was not answered in time" in warnings[0]
