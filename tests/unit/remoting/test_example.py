"""The example in the docs runs and prints what it says."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "remoting.py"


def test_the_example() -> None:
    run = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True, timeout=60)
    assert run.stderr == ""
    assert run.stdout.splitlines() == [
        "heard: a remark",
        "b'6'",
        "b'you are in the lane'",
        "b'backward'",
        "request type 9999 not supported",
        "b'9'",
    ]
