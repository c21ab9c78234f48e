"""The published table of Kafka clients agrees with the results it was made from, and names only what exists."""

import json
import re
from pathlib import Path

import pytest
from tests.compat.features import LIMITS, NOT_OFFERED, ONE_DOWN, ONE_NODE, THREE_NODES, is_cell
from tests.compat.report import FAILS
from tests.compat.table import BEGIN, END, PAGE, merged, read_results, rendered, with_table

RESULTS = read_results()


def test_the_page_shows_the_results() -> None:
    page = PAGE.read_text()
    assert page.count(BEGIN) == page.count(END) == 1
    assert with_table(page, rendered(RESULTS)) == page, "run: make compat-table"


def test_results_and_notes_name_clients_and_features_that_exist() -> None:
    cells = {(client, feature) for client, told in RESULTS.items() for feature in told["cells"]}
    for client, feature in cells | NOT_OFFERED | LIMITS.keys():
        assert is_cell(client, feature)
    assert not cells & NOT_OFFERED, "tried, and said not to exist"


def test_every_failure_has_a_reason_and_a_section_that_says_more() -> None:
    failing = {
        (client, feature)
        for client, told in RESULTS.items()
        for feature, outcome in told["cells"].items()
        if outcome == FAILS
    }
    assert failing <= LIMITS.keys()
    headings = re.findall(r"^#+ (.*)$", PAGE.read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert {limit.anchor for limit in LIMITS.values()} <= anchors


def test_a_report_replaces_what_it_tried() -> None:
    def row(feature: str, outcome: str) -> dict[str, object]:
        return {"client": "kcat", "version": "2", "feature": feature, "outcome": outcome, "reason": ""}

    before = {"kcat": {"version": "1", "cells": {"topics": "works", "seek": "works"}}}
    after = merged(before, [row("seek", "fails"), row("topics", "skipped"), row("headers", "works")])
    assert after == {"kcat": {"version": "2", "cells": {"headers": "works", "seek": "fails", "topics": "works"}}}


def test_a_cluster_has_results_of_its_own() -> None:
    def row(client: str, outcome: str, place: str) -> dict[str, object]:
        return {"client": client, "version": "2", "feature": "seek", "outcome": outcome, "reason": "", "place": place}

    rows = [row("kcat", "works", ONE_NODE), row("kcat", "works", THREE_NODES), row("kcat", "fails", ONE_DOWN)]
    results = merged({}, [*rows, row("sarama", "works", THREE_NODES), row("sarama", "works", ONE_DOWN)])
    assert results["kcat"] == {
        "version": "2",
        ONE_NODE: {"seek": "works"},
        THREE_NODES: {"seek": "works"},
        ONE_DOWN: {"seek": "fails"},
    }
    (line,) = [line for line in rendered(results).splitlines() if line.startswith("| seek to an offset")]
    assert line.endswith("| ✓ 2 | ✗ kcat |")


PROBE = """
import pytest
from tests.compat.report import cells

@cells("kcat", lambda: "1.2")("seek", "headers")
def test_works(): pass

@cells("kcat", "")("headers")
def test_fails(): assert False, "it is broken"

@cells("kcat", "")("nulls")
def test_is_skipped(): pytest.skip("no kcat")

@cells("kcat", "")("nulls", "topics")
@pytest.mark.xfail(reason="known")
def test_is_known_to_fail(): assert False
"""


def test_the_suite_reports_its_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a suite of its own with the hooks of the compatibility suite."""
    from tests.compat.report import Recorder

    recorder = Recorder()

    class Hooks:
        def pytest_configure(self, config: pytest.Config) -> None:
            config.addinivalue_line("markers", "compat_cell: a cell")

        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            for item in items:
                recorder.note_item(item)

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            recorder.note_report(report)

    (tmp_path / "test_probe.py").write_text(PROBE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)
    pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:rerunfailures", str(tmp_path)], plugins=[Hooks()])
    recorder.write(tmp_path / "report.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "report.jsonl").read_text().splitlines()]
    assert [(row["feature"], row["outcome"], row["tests"]) for row in rows] == [
        ("headers", "fails", 2),
        ("nulls", "fails", 2),
        ("seek", "works", 1),
        ("topics", "fails", 1),
    ]
    assert rows[0]["reason"].startswith("AssertionError: it is broken")
    assert rows[1]["reason"] == "known"
