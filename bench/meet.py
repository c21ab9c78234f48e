"""The duplex exercise beside the Go program of it: `python -m bench meet`.

Strategy: both are programs that run two sides over loopback and print one line; each takes its turns in alternating
order, and medians are shown. The Go program has three ways, of which `exercise` (as it was published) may deadlock: a
turn that does not end in time is counted and shown as such. Ours has two, whole runs of lines or a line at a time.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

DEFAULT_PEER: Final = pathlib.Path(__file__).resolve().parents[2] / "shared" / "peers" / "meet"
OUR_WAYS: Final = ("runs", "lines")
GO_WAYS: Final = ("exercise", "line", "coalesced")
Commands = dict[str, list[str]]


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench meet", description=__doc__)
    parser.add_argument("--meetings", "-n", type=int, default=100_000, help="of each turn (default %(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="of each way after a warm-up (default %(default)s)")
    parser.add_argument("--deadline", type=float, default=30.0, metavar="S", help="of one turn (default %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="WAY", help=f"of {', '.join((*OUR_WAYS, *GO_WAYS))}")
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
    hutong = [sys.executable, "-m", "hutong", "bench", "meet", "--meetings", str(options.meetings), "--way"]
    commands: Commands = {f"hutong {way}": [*hutong, way] for way in OUR_WAYS}
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go and (options.go_peer / "main.go").exists():
        shutil.copytree(options.go_peer, folder, dirs_exist_ok=True)
        subprocess.run([go, "build", "-o", "meet", "."], cwd=folder, check=True, timeout=600)
        commands |= {f"go {way}": [str(folder / "meet"), "-n", str(options.meetings), "-way", way] for way in GO_WAYS}
    else:
        print("no Go, or no Go program: Hutong alone", file=sys.stderr)
    return {name: command for name, command in commands.items() if not options.only or name.split()[1] in options.only}


def _turn(command: list[str], deadline_s: float) -> float | None:
    """Seconds as the program measured them; None if it did not end."""
    try:
        ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=deadline_s)
    except subprocess.TimeoutExpired:
        return None
    figures = dict(word.split("=") for word in ended.stdout.splitlines()[0].split())
    return float(figures["seconds"])


def _print(seconds: dict[str, list[float | None]], meetings: int) -> None:
    medians = {way: statistics.median(taken) for way, turns in seconds.items() if (taken := _ended(turns))}
    ours = medians.get("hutong runs")
    table = Table(title=f"{meetings:,} meetings of six lines", title_justify="left")
    for heading in ("way", "seconds (least to most)", "meetings a second", "hutong runs is faster by", "did not end"):
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
