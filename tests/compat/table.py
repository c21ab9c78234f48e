"""The published tables of clients and features: `python -m tests.compat.table [REPORT...]`.

Strategy: REPORT, which `make compat` or `make compat-cluster` has written, replaces what `results.json` said about the
cells that it names, but for those that were skipped: who has no JVM says nothing about Java. The page
docs/compatibility.md then gets the table between two marks. The last two columns count the clients that do the same on
a cluster. Knows nothing of how a cell came about (report.py); a test of the house holds the page to this.
"""

import json
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.compat.features import (
    CLIENTS,
    FEATURES,
    LIMITS,
    NOT_OFFERED,
    ONE_DOWN,
    ONE_NODE,
    SERVICE_CLIENTS,
    SERVICES,
    THREE_NODES,
    Feature,
)
from tests.compat.report import FAILS, SKIPPED, WORKS

ROOT: Final = pathlib.Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "compatibility.md"
RESULTS: Final = pathlib.Path(__file__).with_name("results.json")
BEGIN, END = "<!-- begin of the table of clients: make compat-table -->", "<!-- end of the table of clients -->"
SIGNS: Final = {WORKS: "✓", FAILS: "✗"}
SERVICES_INTRODUCED: Final = "The same for what a node serves besides Kafka's protocol:"
NOT_TRIED, HAS_NONE = "", "none"
PLACES: Final = (ONE_NODE, THREE_NODES, ONE_DOWN)
Results = dict[str, dict[str, Any]]  # client -> version, and for each place: feature -> outcome


def read_results(path: pathlib.Path = RESULTS) -> Results:
    return dict(json.loads(path.read_text()))


def merged(results: Results, rows: list[dict[str, Any]]) -> Results:
    """The results with those of a report, in the order of the table."""
    for row in rows:
        if row["outcome"] != SKIPPED:
            of_client = results.setdefault(row["client"], {"version": "", "cells": {}})
            of_client["version"] = row["version"] or of_client["version"]
            of_client.setdefault(row.get("place", ONE_NODE), {})[row["feature"]] = row["outcome"]
    ordered: Results = {}
    for client in (*CLIENTS, *SERVICE_CLIENTS):
        if client in results:
            ordered[client] = {"version": results[client]["version"]}
            for place in PLACES:
                cells = results[client].get(place, {})
                kept = {feature: cells[feature] for feature in (*FEATURES, *SERVICES) if feature in cells}
                if kept or place == ONE_NODE:
                    ordered[client][place] = kept
    return ordered


def rendered(results: Results) -> str:
    """Both tables, and between them why cells fail."""
    legend = (
        f"{SIGNS[WORKS]} works, as far as the client has it; {SIGNS[FAILS]} fails; "
        f"{HAS_NONE}: the client has no call for it; empty: not tried. The last two columns count the clients with "
        "which it works on a cluster of three nodes, whole and with a node killed."
    )
    kafka = _table(results, CLIENTS, FEATURES, (THREE_NODES, ONE_DOWN))
    services = _table(results, tuple(SERVICE_CLIENTS), SERVICES, ())
    return "\n\n".join(part for part in (kafka, legend, _failures(results), SERVICES_INTRODUCED, services) if part)


def _table(results: Results, clients: Sequence[str], features: Mapping[str, Feature], clusters: Sequence[str]) -> str:
    heads = [f"{client} {results.get(client, {}).get('version', '')}".strip() for client in clients]
    lines = [["", *heads, *clusters], ["---", *(":-:" for _ in (*clients, *clusters))]]
    group = ""
    for name, feature in features.items():
        if feature.group != group:
            group = feature.group
            lines.append([f"**{group}**", *("" for _ in (*clients, *clusters))])
        cells = [_cell(results, client, name) for client in clients]
        lines.append([feature.meaning, *cells, *(_all_cells(results, place, name) for place in clusters)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(results: Results, client: str, feature: str) -> str:
    if (client, feature) in NOT_OFFERED:
        return HAS_NONE
    outcome = results.get(client, {}).get("cells", {}).get(feature)
    if outcome == FAILS and (client, feature) in LIMITS:
        return f"[{SIGNS[FAILS]}](#{LIMITS[client, feature].anchor})"
    return SIGNS.get(outcome, NOT_TRIED)


def _all_cells(results: Results, place: str, feature: str) -> str:
    """How many clients do it there, or who does not."""
    outcomes = {client: told[place][feature] for client, told in results.items() if feature in told.get(place, {})}
    failing = [client for client, outcome in outcomes.items() if outcome == FAILS]
    if failing:
        return f"{SIGNS[FAILS]} {', '.join(failing)}"
    return f"{SIGNS[WORKS]} {len(outcomes)}" if outcomes else NOT_TRIED


def _failures(results: Results) -> str:
    failing = [
        f"- {client}, {FEATURES[feature].meaning}: {limit.reason} ([more](#{limit.anchor}))"
        for (client, feature), limit in LIMITS.items()
        if results.get(client, {}).get("cells", {}).get(feature) == FAILS
    ]
    return "\n".join(failing)


def with_table(page: str, table: str) -> str:
    """The page with another table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def main(words: list[str]) -> None:
    rows = [json.loads(line) for word in words for line in pathlib.Path(word).read_text().splitlines()]
    results = merged(read_results(), rows)
    RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    PAGE.write_text(with_table(PAGE.read_text(), rendered(results)))
    for row in rows:
        if row["outcome"] == FAILS:
            print(f"{row['client']}: {row['feature']}: {row['reason']}")


if __name__ == "__main__":
    main(sys.argv[1:])
