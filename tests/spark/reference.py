"""The jobs' results computed again in plain Python, by other means: to compare with."""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def access_log(lines: Iterable[str]) -> tuple[list[list[str]], Counter[str], list[str]]:
    """Rows of per-hour.csv, requests by path, and the lines that are not well formed. Splits at quotes, no regex."""
    hours: dict[str, list[int]] = defaultdict(lambda: [0] * 6)
    paths: Counter[str] = Counter()
    bad = []
    for line in lines:
        parts = line.split('"')
        if len(parts) != 7 or parts[6]:
            bad.append(line)
            continue
        status, size = parts[2].split()
        row = hours[_hour(parts[0].split("[")[1].split("]")[0])]
        row[0] += 1
        row[1] += 0 if size == "-" else int(size)
        row[int(status[0])] += 1
        paths[parts[1].split()[1]] += 1
    return [[hour, *map(str, row)] for hour, row in sorted(hours.items())], paths, bad


def _hour(text: str) -> str:
    day, month, year, hour, *_, zone = re.split(r"[/: ]", text)
    assert zone == "+0000"
    moment = datetime(int(year), MONTHS.index(month) + 1, int(day), int(hour), tzinfo=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def page_rank(links: Iterable[tuple[str, str]], iterations: int) -> dict[str, float]:
    """Ranks by dictionaries; a page without contributions drops out."""
    targets: dict[str, set[str]] = defaultdict(set)
    for source, target in links:
        targets[source].add(target)
    ranks = dict.fromkeys(targets, 1.0)
    for _ in range(iterations):
        received: dict[str, float] = defaultdict(float)
        for source, rank in ranks.items():
            for target in targets.get(source, ()):
                received[target] += rank / len(targets[source])
        ranks = {page: 0.15 + 0.85 * total for page, total in received.items()}
    return ranks


def read_csv(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))
