"""The demo's answers computed a second time, without Spark and without the broker, to compare with.

Strategy: dictionaries and loops that a reader can check by eye; nothing is shared with the jobs.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

RELATIVE_TOLERANCE = 1e-9  # sums of the same numbers in another order
# Apache's "combined" format; a quote inside a quoted field is escaped by a backslash.
QUOTED = r'"((?:[^"\\]|\\.)*)"'
COMBINED = re.compile(rf"\S+ \S+ \S+ \[([^]]+)\] {QUOTED} (\d{{3}}) (\d+|-) {QUOTED} {QUOTED}\s*")


def page_rank(edges: Iterable[tuple[str, str]], iterations: int) -> dict[str, float]:
    """PageRank as in Spark's first example: 1.0 for each page with links, then 0.15 + 0.85 of what it receives.

    A page that receives nothing in a round has no rank after it and gives nothing in the next.
    """
    links: defaultdict[str, set[str]] = defaultdict(set)
    for source, target in edges:
        links[source].add(target)
    ranks = dict.fromkeys(links, 1.0)
    for _ in range(iterations):
        received: defaultdict[str, float] = defaultdict(float)
        for source, targets in links.items():
            if source in ranks:
                for target in targets:
                    received[target] += ranks[source] / len(targets)
        ranks = {page: 0.15 + 0.85 * total for page, total in received.items()}
    return ranks


def differing(mine: Mapping[str, float], theirs: Mapping[str, float]) -> list[str]:
    """The pages whose ranks differ by more than rounding, or that only one side has."""
    return sorted(
        page
        for page in mine.keys() | theirs.keys()
        if page not in mine
        or page not in theirs
        or abs(mine[page] - theirs[page]) > RELATIVE_TOLERANCE * max(abs(mine[page]), abs(theirs[page]))
    )


def windows(samples: Iterable[tuple[int, str, float]], window_ms: int) -> dict[tuple[int, str], tuple[int, float]]:
    """(window start in ms, metric) → (number of samples, their mean)."""
    gathered: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    for time_ms, metric, value in samples:
        gathered[time_ms - time_ms % window_ms, metric].append(value)
    return {key: (len(values), sum(values) / len(values)) for key, values in gathered.items()}


def requests_per_hour(lines: Iterable[bytes]) -> tuple[dict[str, tuple[int, int]], int]:
    """Hour in UTC (`2015-05-17T10:00:00Z`) → (requests, bytes), and the number of lines that are no log line."""
    hours: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    malformed = 0
    for line in lines:
        try:
            match = COMBINED.fullmatch(line.decode())
            moment = datetime.strptime(match[1], "%d/%b/%Y:%H:%M:%S %z") if match else None
        except ValueError:  # not UTF-8, or a day that no calendar has
            moment = None
        if moment is None or match is None:
            malformed += 1
            continue
        hour = hours[moment.astimezone(UTC).strftime("%Y-%m-%dT%H:00:00Z")]
        hour[0] += 1
        hour[1] += 0 if match[4] == "-" else int(match[4])
    return {hour: (requests, size) for hour, (requests, size) in hours.items()}, malformed
