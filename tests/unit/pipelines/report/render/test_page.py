"""The page stands alone, keeps text as text, and tells what happened."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Any

from tests.unit.pipelines.report.collect.test_events import read
from tests.unit.pipelines.report.spark_events import job_end, job_start, progress, rdd, stage, stage_end, whole_log

from hutong.pipelines.report.model import Sibling, SparkRun
from hutong.pipelines.report.render.page import page, state_of

HOSTILE = "</style><script>alert(1)</script><img src=x onerror=alert(1)>\x00\ud800"


class Reader(HTMLParser):
    """Checks that elements are closed in order; collects tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def parsed(document: str) -> Reader:
    reader = Reader()
    reader.feed(document)
    reader.close()
    assert reader.open == []
    return reader


def test_a_page_of_a_stream() -> None:
    run, _ = read(whole_log(3))
    told = parsed(page(run))
    text = "\n".join(told.texts)
    for words in (
        "mine",
        "finished",
        "Query hours",
        "Throughput",
        "hours: batch 2, the last",
        "All stages",
        "records read",
    ):
        assert words in text, words
    assert "What went wrong" not in text


def test_it_names_no_other_file_and_allows_nothing_but_its_style() -> None:
    document = page(read(whole_log(3))[0])
    told = parsed(document)
    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & set(told.tags)
    assert not [name for name, _ in told.attributes if name.startswith("on") or name in {"style", "src", "href"}]
    assert "url(" not in document
    (style,) = re.findall(r"<style>(.*?)</style>", document, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = (value for _, value in told.attributes if value and value.startswith("default-src"))
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_whatever_names_and_messages_hold_stays_text() -> None:
    events = whole_log(1)
    replaced: list[Any] = []
    for event in events:
        event = {
            name: HOSTILE if name in {"App Name", "name", "Spark Version"} else value for name, value in event.items()
        }
        replaced.append(event)
    replaced += [job_end(0, HOSTILE), progress(7, name=HOSTILE)]
    run, _ = read(replaced)
    run.siblings = [Sibling(HOSTILE, HOSTILE, 10**20, 1, HOSTILE)] * 2
    run.note(HOSTILE)
    assert {"script", "img"}.isdisjoint(parsed(page(run)).tags)
    page(run).encode()


def test_failures_are_told_once_each_with_where() -> None:
    run = SparkRun(name="mine")
    text = "Job aborted\nCaused by: java.io.IOException: No space left on device\n\tat x"
    run.add_failure("stage 3", text)
    run.add_failure("job 1", text)
    told = "\n".join(parsed(page(run)).texts)
    assert told.count("No space left on device") == 2  # the sentence, and all that Spark said
    assert "stage 3, job 1" in told


def test_states() -> None:
    run, _ = read(whole_log(1))
    assert state_of(run) == "finished"
    run.jobs[0].status = "FAILED"
    assert state_of(run) == "failed"
    run.ended_ms = None
    assert state_of(run) == "not ended"
    run.state = "stopped"
    assert state_of(run) == "stopped"


def test_a_day_of_batches_makes_a_page_of_bounded_size() -> None:
    run, _ = read(
        [
            progress(number, timestamp=f"2026-11-22T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z")
            for number in range(5_000)
        ]
    )
    document = page(run)
    assert len(document) < 400_000
    assert "5,000 micro-batches, drawn as 240 means of neighbours." in document


def test_an_empty_run_is_a_page() -> None:
    assert "A run on Spark" in page(SparkRun())


def test_jobs_that_compute_from_the_same_stages_are_one_picture() -> None:
    made = stage(0, (), [rdd(0), rdd(1)])
    first, second, third = (stage(number, (0,), [rdd(number + 5)]) for number in (1, 3, 4))
    jobs = [[made, first], [made | {"Stage ID": 2}, second | {"Parent IDs": [2]}], [third | {"Parent IDs": []}]]
    events = [
        event for number, infos in enumerate(jobs) for event in (job_start(number, infos), *map(stage_end, infos))
    ]
    run, _ = read([event for event in events if event.get("Stage Info", {}).get("Stage ID") != 2])
    told = parsed(page(run)).texts
    assert [text for text in told if re.search(r"\(\d jobs?, ", text)] == [
        "start at mine.py:3 (2 jobs, 0 ms)",
        "start at mine.py:3 (1 job, 0 ms)",
    ]
