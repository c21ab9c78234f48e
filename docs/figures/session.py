"""A picture of a terminal: `python docs/figures/session.py PICTURE.svg` runs the commands below and draws their output.

Strategy: a real node in a folder of its own, on a free port, and real commands by a shell. What differs from run to
run (the port, the process number, times and rates) is replaced, so that the picture changes when the commands do. No
font is fetched from elsewhere, and no colour depends on the page.
"""

import os
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Final

from bench.processes import ReadyProcess
from bench.targets import hutong_command

COLUMNS: Final = 92
PORT, PROCESS = "9092", "4711"
SERVE: Final = f"hutong serve --data-dir ./data --kafka 127.0.0.1:{PORT} &"
COMMANDS: Final = (
    "hutong topic create orders",
    r"printf 'ann:tea\nbob:nuts\nann:rice\n' | hutong produce orders --key-separator :",
    "hutong consume orders --group billing --max 2",
    "hutong topic list",
    "hutong group list",
    "hutong topic describe ordrs",
)
COMMAND_SECONDS_MAX: Final = 60
LINE_HEIGHT, CHARACTER_WIDTH, MARGIN, TOP = 18, 7.85, 16, 44
STYLE: Final = (
    ".line{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d6dbe4;"
    "white-space:pre}.command{fill:#8fd3a9}"
)


def recorded() -> list[tuple[bool, str]]:
    """The lines of the session: True for what a person types, False for what is printed."""
    with tempfile.TemporaryDirectory() as folder:
        command = hutong_command(Path(folder) / "data", "127.0.0.1:0")
        with ReadyProcess(command, log_path=str(Path(folder) / "node.log")) as node:
            address = node.fields["kafka"]
            lines = [(True, SERVE), (False, f"ready kafka=127.0.0.1:{PORT} pid={PROCESS}")]
            for text in COMMANDS:
                lines.append((True, text))
                lines += [(False, line) for line in _output(text, address).splitlines()]
    return lines


def _output(text: str, address: str) -> str:
    """The output of a command, both streams, without the parts that differ from run to run."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    environment = {"PATH": path, "HUTONG_BOOTSTRAP": address, "COLUMNS": str(COLUMNS)}
    done = subprocess.run(
        ["sh", "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    shown = done.stdout.replace(address, f"127.0.0.1:{PORT}")
    shown = re.sub(r"in \d+\.\d+ s, [\d,]+/s", "in 0.01 s, 300/s", shown)
    return "\n".join(line.rstrip() for line in shown.splitlines())


def drawn(lines: list[tuple[bool, str]]) -> str:
    """The SVG of the session. A line that is longer than the window is folded."""
    rows = [
        (is_command, part)
        for is_command, text in lines
        for part in wrap(f"$ {text}" if is_command else text, COLUMNS, break_on_hyphens=False) or [""]
    ]
    width, height = round(COLUMNS * CHARACTER_WIDTH + 2 * MARGIN), TOP + LINE_HEIGHT * len(rows) + MARGIN // 2
    texts = "".join(
        f'<text class="line{" command" if is_command else ""}" x="{MARGIN}" y="{TOP + LINE_HEIGHT * number + 12}">'
        f"{escape(text)}</text>\n"
        for number, (is_command, text) in enumerate(rows)
    )
    lights = "".join(f'<circle cx="{22 + 20 * number}" cy="20" r="6" fill="#4b5563"/>' for number in range(3))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'aria-label="A terminal: a node is started, records are sent and read">\n<style>{STYLE}</style>\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="#1f2430"/>{lights}\n{texts}</svg>\n'
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(drawn(recorded()))
