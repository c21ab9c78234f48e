"""Programs on pages of the documentation run as they stand, and print what stands below them."""

import doctest
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
# Pages on which every block of Python is a program.
PAGES = ["contexts", "durable-addresses", "essays/continuations", "handlers", "rpc-tutorial", "tutorial"]
# The names in braces are those of programs that the documentation's own doctest builder runs as well.
PROGRAM = re.compile(
    r"^```(?:python|{testcode})\n(.*?)^```\n(?:\n```(?:text|{testoutput})\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL
)

# What the checker of blocked threads says where it is the machine that is busy, and not the program.
BUSY = re.compile(r"^loop-\d+ (?:has been blocked for .*\n(?:  .*\n)*|turns again\.\n)", re.MULTILINE)

# A busy machine lets the checker look later than the page says.
DURATION = re.compile(r"(blocked for )\d+\.\d s")


def programs() -> Iterator[object]:
    for page in PAGES:
        text = (DOCS / f"{page}.md").read_text()
        for match in PROGRAM.finditer(text):
            line = text[: match.start()].count("\n") + 1
            yield pytest.param(match[1], match[2] or "", id=f"{page}.md:{line}")


@pytest.mark.parametrize(("program", "expected"), list(programs()))
def test_a_program_of_the_documentation_prints_what_it_says(program: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(program)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60, check=False)
    printed, expected = (DURATION.sub(r"\1N s", text) for text in (done.stdout + BUSY.sub("", done.stderr), expected))
    assert doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS), printed
    assert done.returncode == 0
