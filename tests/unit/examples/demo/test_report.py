"""How findings become tables and a document."""

import json
from pathlib import Path

import pytest

from hutong.examples.demo.flow import DemoStream
from hutong.examples.demo.report import Findings, module_rows, print_findings, stream_rows, window_rows
from hutong.pipelines.report.render.tables import percentile

EDGES = [("a", "os"), ("b", "os"), ("b", "sys")]


def good_stream() -> DemoStream:
    values = [b"1", b"2", b"3", b"4"]
    return DemoStream("t", values, list(values), 4, 4, 4, 0.5, 0.25, [0.001, 0.002, 0.003, 0.1], [0.01])


def test_percentiles_by_nearest_rank() -> None:
    assert percentile([5.0], 0.99) == 5.0
    hundred = [float(value) for value in range(100)]
    assert (percentile(hundred, 0.5), percentile(hundred, 0.99), percentile(hundred, 1.0)) == (50.0, 99.0, 99.0)


def test_a_stream_that_went_all_the_way_has_no_faults_and_its_figures() -> None:
    stream = good_stream()
    assert stream.faults() == []
    (row,) = stream_rows([stream])
    assert (row["produced"], row["acknowledged"], row["consumed"], row["processed"]) == (4, 4, 4, 4)
    assert (row["sent_per_s"], row["read_per_s"]) == (8, 16)
    assert (row["ack_ms_p50"], row["ack_ms_p99"], row["end_to_end_ms_p50"]) == (3.0, 100.0, 10.0)


def test_one_record_off_is_a_fault_wherever_it_is_off() -> None:
    lost, swapped, unread, uncounted = (good_stream() for _ in range(4))
    lost.acknowledged = 3
    swapped.received = [b"2", b"1", b"3", b"4"]
    unread.received.pop()
    uncounted.processed = 3
    for stream, words in (
        (lost, "4 records were sent and 3 acknowledged"),
        (swapped, "the 4 records read are not the 4 sent"),
        (unread, "the 3 records read are not the 4 sent"),
        (uncounted, "4 records were sent and 3 processed"),
    ):
        (fault,) = stream.faults()
        assert words in fault


def test_modules_with_their_importers() -> None:
    findings = Findings(ranks=[("os", 2.0), ("sys", 1.0)])
    assert module_rows(findings, EDGES) == [
        {"place": 1, "module": "os", "rank": 2.0, "imported_by": 2},
        {"place": 2, "module": "sys", "rank": 1.0, "imported_by": 1},
    ]


def test_windows_have_a_column_for_every_metric() -> None:
    windows = {(10_000, "cpu"): (2, 5.0), (10_000, "load"): (1, 0.5), (15_000, "cpu"): (1, 7.0)}
    assert window_rows(windows) == [
        {"window_utc": "1970-01-01T00:00:10Z", "samples": 3, "cpu": 5.0, "load": 0.5},
        {"window_utc": "1970-01-01T00:00:15Z", "samples": 1, "cpu": 7.0, "load": None},
    ]


def test_tables_and_document_tell_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    findings = Findings("h:1", Path("/data"), Path("/data/results"), 0.25, streams=[good_stream()])
    findings.ranks = [("os", 2.0)]
    findings.hours = [{"hour_utc": "2015-05-17T10:00:00Z", "requests": 3}]
    findings.spark_seconds = {"pagerank": 5.0}
    print_findings(findings, EDGES, as_json=False)
    tables = capsys.readouterr().out
    for words in ("by PageRank", "os", "per hour", "2015-05-17T10", "Spark: pagerank", "5.0 s", "/data/results"):
        assert words in tables
    print_findings(findings, EDGES, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["modules"][0]["module"] == "os"
    assert document["streams"][0]["processed"] == 4
    assert document["faults"] == []
