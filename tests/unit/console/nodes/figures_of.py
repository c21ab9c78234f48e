"""Samples and histories for tests, from a few lines."""

from hutong.console.nodes.families import KEPT
from hutong.console.nodes.history import History
from hutong.console.nodes.samples import Sample, SampleReader

WALL_MS = 1_800_000_000_000


def sample(at_s: float, *lines: str, is_full: bool = True) -> Sample:
    page = "".join(f"{line}\n" for line in lines)
    read = SampleReader(KEPT).read(page, int(at_s * 1_000), WALL_MS + int(at_s * 1_000), is_full=is_full)
    assert read.refused == 0, page
    return read


def history(*samples_: Sample) -> History:
    made = History()
    for one in samples_:
        made.add(one)
    return made


def histogram(name: str, counts: dict[str, int], labels: str = "") -> list[str]:
    """Lines of the buckets, whose counts are given one by one."""
    lines, below = [], 0
    for bound, count in counts.items():
        below += count
        lines.append(f'{name}_bucket{{{labels}{"," if labels else ""}le="{bound}"}} {below}')
    rest = f"{{{labels}}}" if labels else ""
    return [*lines, f"{name}_sum{rest} 1", f"{name}_count{rest} {below}"]
