"""The longest work of a node's loop for hostile clients of the bridges: `python -m bench bridges`.

Strategy: a node in a process of its own, the attacks of the tests one after the other, and the node's own measurement
on its page of metrics: processor time of the loop's thread, so that what else the machine does counts for little.
docs/bridges.md states the bucket of the histogram above which nothing may be.
"""

import argparse
import pathlib
import statistics
import urllib.request
from collections.abc import Callable, Sequence
from typing import Final

from tests.support import bridge_attacks, sockjs_attacks
from tests.support.exposition import parse

from bench.processes import ReadyProcess
from bench.targets import hutong_command, scratch_folder

LONG_S: Final = 0.065536
DOORS: Final[tuple[tuple[str, tuple[str, ...], tuple[Callable[[int], None], ...]], ...]] = (
    ("tcp-bridge", bridge_attacks.OPTIONS, bridge_attacks.ATTACKS),
    ("sockjs", sockjs_attacks.OPTIONS, sockjs_attacks.ATTACKS),
)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench bridges", description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="", metavar="WORDS", help="only attacks whose name contains WORDS")
    parser.add_argument("--dir", help="where the data goes (default: the temporary folder)")
    options = parser.parse_args(words)
    print(f"looks that found more than {LONG_S * 1000:.0f} ms of work in one piece, by attack: median of the turns")
    with scratch_folder(options.dir) as folder:
        for door, permits, attacks in DOORS:
            chosen = [attack for attack in attacks if options.only in attack.__name__]
            _measure(pathlib.Path(folder) / door, door, permits, chosen, options.turns)
    return 0


def _measure(
    folder: pathlib.Path, door: str, permits: Sequence[str], attacks: Sequence[Callable[[int], None]], turns: int
) -> None:
    folder.mkdir()
    command = [*hutong_command(folder / "data"), f"--{door}", "127.0.0.1:0", "--metrics", "127.0.0.1:0", *permits]
    with ReadyProcess(command, log_path=str(folder / "node.log")) as node:
        port = int(node.fields[door].rpartition(":")[2])
        for attack in attacks:
            long: list[float] = []
            for _ in range(turns):
                before = _long_looks(node)
                attack(port)
                long.append(_long_looks(node) - before)
            print(f"  {door} {attack.__name__}: {statistics.median(long):g} {[int(count) for count in long]}")


def _long_looks(node: ReadyProcess) -> float:
    """Count the looks that found the loop at work for longer than LONG_S."""
    with urllib.request.urlopen(f"http://{node.fields['metrics']}/metrics?detail=full") as page:
        work = parse(page.read().decode())["hutong_loop_work_seconds"]
    total = work.samples["hutong_loop_work_seconds_count", ()]
    return total - work.samples["hutong_loop_work_seconds_bucket", (("le", str(LONG_S)),)]
