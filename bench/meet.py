"""The duplex exercise (examples/duplex/meet.py) next to the Go program of it: `python -m bench meet`.

Strategy: both programs run two sides over loopback and print a line with their seconds. They run in alternating order,
and the table shows medians. The Go program has three ways. One of them, `exercise` as it was published, may deadlock:
the table counts the runs that do not end in time.
"""

import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

ROOT: Final = pathlib.Path(__file__).resolve().parents[1]
PROGRAM: Final = ROOT / "examples" / "duplex" / "meet.py"
DEFAULT_PEER: Final = ROOT.parent / "shared" / "peers" / "meet"
OURS: Final = "python"
GO_WAYS: Final = ("exercise", "line", "coalesced")
SECONDS: Final = re.compile(r"seconds[= ]([\d.]+)")
Commands = dict[str, list[str]]


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench meet", description=__doc__)
    parser.add_argument("--meetings", "-n", type=int, default=100_000, help="of each turn (default %(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="of each way after a warm-up (default %(default)s)")
    parser.add_argument("--deadline", type=float, default=30.0, metavar="S", help="of one turn (default %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="WAY", choices=GO_WAYS, help="of the Go program: %(choices)s")
    parser.add_argument(
        "--go-peer",
        type=pathlib.Path,
        default=DEFAULT_PEER,
        metavar="FOLDER",
        help="the Go program; left out if absent",
    )
    parser.add_argument("--json", metavar="FILE", help="also write every turn as JSON")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    with tempfile.TemporaryDirectory() as folder:
        commands = _commands(options, pathlib.Path(folder))
        seconds: dict[str, list[float | None]] = {way: [] for way in commands}
        for turn in range(options.turns + 1):
            for way in reversed(commands) if turn % 2 else commands:
                print(f"{way}, {f'turn {turn}' if turn else 'warm-up'}", file=sys.stderr, flush=True)
                taken = _turn(commands[way], options.deadline)
                if turn:
                    seconds[way].append(taken)
    _print(seconds, options.meetings)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(seconds, indent=1) + "\n")
    return 0


def _commands(options: argparse.Namespace, folder: pathlib.Path) -> Commands:
    meetings = str(options.meetings)
    commands: Commands = {OURS: [sys.executable, str(PROGRAM), "--meetings", meetings]}
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go and (options.go_peer / "main.go").exists():
        shutil.copytree(options.go_peer, folder, dirs_exist_ok=True)
        subprocess.run([go, "build", "-o", "meet", "."], cwd=folder, check=True, timeout=600)
        for way in options.only or GO_WAYS:
            commands[f"go {way}"] = [str(folder / "meet"), "-n", meetings, "-way", way]
    else:
        print("no Go, or no Go program: Python alone", file=sys.stderr)
    return commands


def _turn(command: list[str], deadline_s: float) -> float | None:
    """Seconds as the program measured them; None if it did not end."""
    try:
        ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=deadline_s)
    except subprocess.TimeoutExpired:
        return None
    seconds = SECONDS.search(ended.stdout)
    if seconds is None:
        raise ValueError(f"{command[0]} printed no seconds: {ended.stdout!r}")
    return float(seconds[1])


def _print(seconds: dict[str, list[float | None]], meetings: int) -> None:
    medians = {way: statistics.median(taken) for way, turns in seconds.items() if (taken := _ended(turns))}
    ours = medians.get(OURS)
    table = Table(title=f"{meetings:,} meetings of six lines", title_justify="left")
    for heading in ("way", "seconds (least to most)", "meetings a second", "times ours", "did not end"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for way, turns in seconds.items():
        median, taken = medians.get(way), _ended(turns)
        stuck = str(len(turns) - len(taken))
        if median is None:
            table.add_row(way, "-", "-", "-", stuck)
            continue
        spread = f"{median:.3f} ({min(taken):.3f}-{max(taken):.3f})"
        times = f"{median / ours:.2f}" if ours else "-"
        table.add_row(way, spread, f"{meetings / median:,.0f}" if median else "-", times, stuck)
    console = Console(width=None if Console().is_terminal else 160)
    console.print(table)


def _ended(turns: list[float | None]) -> list[float]:
    return [seconds for seconds in turns if seconds is not None]
