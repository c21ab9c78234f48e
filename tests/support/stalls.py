"""How often a node's loop worked for too long in one piece, by its own measure on its page of metrics.

Processor time, not the clock on the wall: what else the machine does counts for nothing.
"""

import urllib.request
from typing import Final

from bench.processes import ReadyProcess
from tests.support.exposition import parse

STALL_S_MAX: Final = 0.065536  # docs/bridges.md: the bucket of the histogram in which nothing may be left out


def stalls(node: ReadyProcess) -> tuple[float, float]:
    """How many looks at the loop there were, and how many of them found that it had worked longer than STALL_S_MAX."""
    with urllib.request.urlopen(f"http://{node.fields['metrics']}/metrics") as page:
        work = parse(page.read().decode())["hutong_loop_work_seconds"]
    total = work.samples["hutong_loop_work_seconds_count", ()]
    within = work.samples["hutong_loop_work_seconds_bucket", (("le", str(STALL_S_MAX)),)]
    return total, total - within
