"""Which cell of the compatibility tables a test fills, and the file that tells how it went.

    FRANZ = cells("franz-go", "1.22.2")          # the version, or a function that finds it out

    @FRANZ("headers", "nulls")                   # a test may fill several cells, and a cell may need several tests
    def test_...

    pytest.param(..., marks=FRANZ("seek"))       # the same for one case of a parametrized test
    pytest.mark.xfail(reason=...)                # fills the cell with `fails`; features.LIMITS must say why

Strategy: the marker is checked when tests are collected; reports are kept by test, so that a second run of a failed
test replaces the first. With TEST_COMPAT_REPORT=FILE the end of the session writes one JSON object per cell: client,
version, feature, outcome (works, fails, skipped), tests, reason, and the place: one node, or a cluster (conftest.py).
Tests marked `thorough` run with TEST_COMPAT=full only. Knows nothing of brokers, and nothing of how the table looks
(table.py).
"""

import json
import os
import pathlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import pytest
from tests.compat.features import ONE_DOWN, ONE_NODE, THREE_NODES, is_cell

MARKER: Final = "compat_cell"
IS_FULL: Final = os.environ.get("TEST_COMPAT") == "full"
REPORT_PATH: Final = os.environ.get("TEST_COMPAT_REPORT")
WORKS, FAILS, SKIPPED = "works", "fails", "skipped"
REASON_LENGTH_MAX: Final = 300
CLUSTER_NODES: Final = int(os.environ.get("TEST_COMPAT_CLUSTER", "1"))
NODE_DOWN: Final = int(os.environ.get("TEST_COMPAT_DOWN", "0"))
PLACE: Final = ONE_NODE if CLUSTER_NODES == 1 else ONE_DOWN if NODE_DOWN else THREE_NODES


@dataclass(frozen=True, slots=True)
class Cell:
    """A client and a feature, and where the client's version comes from."""

    client: str
    feature: str
    version: str | Callable[[], str]


@dataclass(slots=True)
class Outcome:
    """The end of one test."""

    result: str
    reason: str


def cells(client: str, version: str | Callable[[], str]) -> Callable[..., pytest.MarkDecorator]:
    """A function from features to the marker that says: this test fills these cells of the client."""

    def mark(*features: str) -> pytest.MarkDecorator:
        return pytest.mark.compat_cell(client, *features, version=version)

    return mark


def cells_of(item: pytest.Item) -> list[Cell]:
    """The cells that the test's markers name. Raises UsageError for a name that the table does not have."""
    found: list[Cell] = []
    for marker in item.iter_markers(MARKER):
        client, *features = marker.args
        if not features or not all(is_cell(client, feature) for feature in features):
            raise pytest.UsageError(f"{item.nodeid}: no such cell: {client}, {', '.join(features)}; see features.py")
        found += [Cell(client, feature, marker.kwargs.get("version", "")) for feature in features]
    return found


class Recorder:
    """The outcome of each test that fills a cell."""

    def __init__(self) -> None:
        self._cells: dict[str, list[Cell]] = {}
        self._outcomes: dict[str, Outcome] = {}

    def note_item(self, item: pytest.Item) -> None:
        found = cells_of(item)
        if found:
            self._cells[item.nodeid] = found

    def note_report(self, report: pytest.TestReport) -> None:
        """The body of a test decides; a set-up or tear-down only when it fails or skips."""
        if report.nodeid not in self._cells or (report.when != "call" and report.passed):
            return
        is_known_fault = hasattr(report, "wasxfail")
        if report.passed:
            outcome = Outcome(WORKS, "")
        elif report.skipped and not is_known_fault:
            outcome = Outcome(SKIPPED, _reason(report))
        else:
            outcome = Outcome(FAILS, report.wasxfail if is_known_fault else _reason(report))
        self._outcomes[report.nodeid] = outcome

    def summary(self) -> list[dict[str, object]]:
        """One row per cell: it works if all its tests passed, but for skipped ones where others passed."""
        by_cell: dict[tuple[str, str], list[Outcome]] = {}
        versions: dict[str, str | Callable[[], str]] = {}
        for nodeid, outcome in self._outcomes.items():
            for cell in self._cells[nodeid]:
                by_cell.setdefault((cell.client, cell.feature), []).append(outcome)
                versions[cell.client] = cell.version
        told = {client: version() if callable(version) else version for client, version in versions.items()}
        rows: list[dict[str, object]] = []
        for (client, feature), outcomes in sorted(by_cell.items()):
            worst = _worst(outcomes)
            row = {"client": client, "version": told[client], "feature": feature, "outcome": worst.result}
            rows.append({**row, "tests": len(outcomes), "reason": worst.reason})
        return rows

    def write(self, path: pathlib.Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps({**row, "place": PLACE}) + "\n" for row in self.summary()))


def _worst(outcomes: Iterable[Outcome]) -> Outcome:
    rank = {FAILS: 0, WORKS: 1, SKIPPED: 2}
    return min(outcomes, key=lambda outcome: rank[outcome.result])


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):  # a skip: file, line, reason
        return report.longrepr[2].removeprefix("Skipped: ")[:REASON_LENGTH_MAX]
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr)
    return next(iter(text.splitlines()), "")[:REASON_LENGTH_MAX]
