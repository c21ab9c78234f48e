"""The two states of a machine in which window-1 latency is measured.

A sleeping virtual CPU wakes slowly, which can double a latency that a busier machine would not show. `awake` keeps
every CPU from sleeping with busy loops at the lowest priority, which yield to anything else; `quiet` leaves the machine
alone.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

QUIET: Final = "quiet"
AWAKE: Final = "awake"


@contextlib.contextmanager
def machine_state(name: str) -> Iterator[None]:
    """Holds the machine in the state `name` ("quiet" or "awake") while the block runs."""
    if name not in (QUIET, AWAKE):
        raise ValueError(f"no machine state named {name!r}")
    loops = []
    try:
        if name == AWAKE:
            command = ["nice", "-n", "19", sys.executable, "-c", "while True: pass"]
            loops = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
