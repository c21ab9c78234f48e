"""Costs of a process, and summaries of samples.

Strategy: CPU and memory are read from /proc for the process and all its children, so that a broker of several processes
counts whole. Knows nothing of brokers.
"""

import os
import pathlib
import re
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def family(pid: int) -> Iterator[int]:
    """The process and its descendants."""
    yield pid
    children = set()
    with suppress(OSError):
        for task in list(pathlib.Path(f"/proc/{pid}/task").iterdir()):
            with suppress(OSError):  # a thread that has just ended
                children |= {int(child) for child in (task / "children").read_text().split()}
    for child in children:
        yield from family(child)


def cpu_seconds(pid: int) -> float:
    """User and system time of the family so far, children that were waited for included."""
    ticks = 0
    for member in family(pid):
        try:
            after_name = pathlib.Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(int(field) for field in after_name[11:15])  # utime, stime, cutime, cstime: proc(5)
    return ticks / _TICKS_PER_S


def wake_ups(pid: int) -> int:
    """The number of voluntary sleeps of the family's threads so far: one for each wake-up."""
    switches = 0
    for member in family(pid):
        for task in pathlib.Path(f"/proc/{member}/task").glob("*/status"):
            with suppress(OSError):  # a thread that has just ended
                found = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", task.read_text(), re.MULTILINE)
                switches += int(found[1]) if found else 0
    return switches


def running_seconds(pid: int) -> float:
    """Processor time of all threads of the family so far, in nanoseconds' precision where ticks are too coarse."""
    nanoseconds = 0
    for member in family(pid):
        for task in pathlib.Path(f"/proc/{member}/task").glob("*/schedstat"):
            with suppress(OSError):
                nanoseconds += int(task.read_text().split()[0])
    return nanoseconds / 1e9


@dataclass(frozen=True, slots=True)
class Memory:
    """Megabytes (10^6 bytes): resident now, proportional share now, and the peak of the resident size."""

    rss_mb: float
    pss_mb: float
    peak_rss_mb: float


def memory(pid: int) -> Memory:
    rss = pss = peak = 0
    for member in family(pid):
        status, rollup = _kilobytes(member, "status"), _kilobytes(member, "smaps_rollup")
        rss += status.get("VmRSS", 0)
        peak += status.get("VmHWM", 0)
        pss += rollup.get("Pss", 0)
    return Memory(rss * 1024 / 1e6, pss * 1024 / 1e6, peak * 1024 / 1e6)


def _kilobytes(pid: int, file: str) -> dict[str, int]:
    try:
        lines = pathlib.Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[-2]) for line in lines if line.endswith(" kB")}


class WeightedSamples:
    """Durations in seconds, each counted for several events at once; keeps pairs, so it stays cheap while loaded."""

    def __init__(self) -> None:
        self._seconds = array("d")
        self._counts = array("l")

    def add(self, seconds: float, count: int) -> None:
        self._seconds.append(seconds)
        self._counts.append(count)

    @property
    def count(self) -> int:
        return sum(self._counts)

    @classmethod
    def joined(cls, parts: "Iterable[WeightedSamples]") -> "WeightedSamples":
        whole = cls()
        for part in parts:
            whole._seconds.extend(part._seconds)
            whole._counts.extend(part._counts)
        return whole

    def percentiles(self, *fractions: float) -> list[float]:
        """For each fraction the least duration that this share of events did not exceed (nearest rank); 0.0 if none."""
        ranked = sorted(zip(self._seconds, self._counts, strict=True))
        total = self.count
        return [self._at_rank(ranked, fraction * total) for fraction in fractions]

    @staticmethod
    def _at_rank(ranked: list[tuple[float, int]], goal: float) -> float:
        seen = 0
        for seconds, count in ranked:
            seen += count
            if seen >= goal:
                return seconds
        return 0.0
