"""The demo notices when an answer is off by one, with jobs that lie."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from hutong.examples.demo import plain
from hutong.examples.demo import run as run_module
from hutong.examples.demo.flow import DemoStream
from hutong.examples.demo.jobs import DemoJobs
from hutong.examples.demo.report import Findings
from hutong.examples.demo.run import DEAD_LETTERS, ITERATIONS, WINDOW_MS, Demo, page_of

EDGES = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "a")]
LINE = b'1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 10 "-" "agent"'
LINES = [LINE, LINE, b"no log line"]
SAMPLES = [(1000, "cpu", 1.0), (2000, "cpu", 2.0), (9000, "cpu", 4.0)]


class TellingJobs:
    """Answers as the real jobs would; a test changes one answer."""

    def __init__(self) -> None:
        self.edges_read = len(EDGES)
        self.ranks = plain.page_rank(EDGES, ITERATIONS)
        self.hours = [{"hour_utc": "2015-05-17T10:00:00Z", "requests": 2, "bytes": 20}]
        self.counts = plain.windows(SAMPLES, WINDOW_MS)

    def page_rank(self, topic: str, iterations: int) -> tuple[int, dict[str, float]]:
        return self.edges_read, self.ranks

    def access_log(self, topic: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        return self.hours, [{"path": "/a", "requests": 2}]

    def windows(self, topic: str, window_ms: int) -> dict[tuple[int, str], tuple[int, float]]:
        return self.counts


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Callable[[TellingJobs, int], list[str]]:
    """Runs the checks on what the jobs answer, with so many dead letters read back; returns the faults."""

    def check(answers: TellingJobs, dead_letters: int) -> list[str]:
        def read_back(bootstrap: str, stream: DemoStream) -> None:
            assert stream.topic == DEAD_LETTERS
            stream.received = [b"no log line"] * dead_letters

        monkeypatch.setattr(run_module, "producer", lambda bootstrap, linger_ms: None)
        monkeypatch.setattr(run_module, "read_back", read_back)
        demo = Demo(Findings(), lambda step: None)
        demo.edges, demo._samples = EDGES, SAMPLES
        jobs = cast(DemoJobs, answers)
        streams = [
            DemoStream("graph", [b"edge"] * len(EDGES)),
            DemoStream("log", list(LINES)),
            DemoStream("samples", [b"sample"] * len(SAMPLES)),
        ]
        demo._rank(jobs, streams[0])
        demo._count_requests(jobs, streams[1])
        demo._window(jobs, streams[2])
        for stream in streams:
            stream.received, stream.acknowledged = stream.values, len(stream.values)
        return demo.findings.faults + [fault for stream in streams for fault in stream.faults()]

    return check


Faults = Callable[[TellingJobs, int], list[str]]


def test_right_answers_have_no_faults(faults: Faults) -> None:
    assert faults(TellingJobs(), 1) == []


def test_an_edge_that_was_not_read(faults: Faults) -> None:
    jobs = TellingJobs()
    jobs.edges_read -= 1
    assert faults(jobs, 1) == ["graph: 4 records were sent and 3 processed."]


@pytest.mark.parametrize("page", ["a", "b", "c"])
def test_a_rank_that_is_off(faults: Faults, page: str) -> None:
    jobs = TellingJobs()
    jobs.ranks = jobs.ranks | {page: jobs.ranks[page] * 1.000001}
    assert faults(jobs, 1) == [f"PageRank differs from a plain computation for 1 modules, first {page}."]


def test_a_request_too_few(faults: Faults) -> None:
    jobs = TellingJobs()
    jobs.hours[0]["requests"] = 1
    assert faults(jobs, 1) == [
        "The access-log job differs from a plain computation.",
        "log: 3 records were sent and 2 processed.",
    ]


def test_a_dead_letter_that_is_missing_or_there_twice(faults: Faults) -> None:
    for count in (0, 2):
        assert f"log: 3 records were sent and {2 + count} processed." in faults(TellingJobs(), count)


def test_a_sample_too_many_and_a_mean_that_is_off(faults: Faults) -> None:
    counted, off = TellingJobs(), TellingJobs()
    counted.counts[0, "cpu"] = (3, 1.5)
    off.counts[0, "cpu"] = (2, 1.6)
    assert "samples: 3 records were sent and 4 processed." in faults(counted, 1)
    assert faults(off, 1) == ["The metrics per window differ from a plain computation."]


def test_the_page_of_a_module(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    assert page_of("package", tmp_path) == "/package/__init__.py"
    assert page_of("package.inner", tmp_path) == "/package/inner.py"
    assert page_of("sys", tmp_path) == "/sys.py"
