"""The memory of a running job: of Spark's Java machine and of the Python workers.

Strategy: a thread adds up the resident sizes from /proc a few times a second; what counts is whether the peak of the
second half of the run lies above that of the first. Knows nothing of the job.
"""

import os
import pathlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from bench.figures import family

INTERVAL_S: Final = 0.2
JAVA: Final = "java"


@dataclass(slots=True)
class Samples:
    """Megabytes (10^6 bytes), one entry for each look."""

    java: list[float] = field(default_factory=list)
    workers: list[float] = field(default_factory=list)

    def look(self, pid: int) -> None:
        """At all descendants of a process."""
        java = workers = 0.0
        for member in family(pid):
            if member != pid:
                name, megabytes = _resident(member)
                java += megabytes if name == JAVA else 0
                workers += megabytes if name != JAVA else 0
        self.java.append(java)
        self.workers.append(workers)


def halves(samples: list[float]) -> tuple[float, float]:
    """The peaks of the first and of the second half."""
    middle = max(1, len(samples) // 2)
    return max(samples[:middle], default=0.0), max(samples[middle:], default=0.0)


@contextmanager
def sampled() -> Iterator[Samples]:
    """Samples of this process' descendants while the block runs."""
    samples, over = Samples(), threading.Event()

    def run() -> None:
        while not over.wait(INTERVAL_S):
            samples.look(os.getpid())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


def _resident(pid: int) -> tuple[str, float]:
    try:
        name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return "", 0.0
    return name, pages * os.sysconf("SC_PAGE_SIZE") / 1e6
