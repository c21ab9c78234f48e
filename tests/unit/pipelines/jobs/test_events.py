"""What jobs are told, as far as it is checked without Spark."""

from pathlib import Path
from typing import Any

import pytest

from hutong.foundation.errors import UsageError
from hutong.pipelines.declared.check.checking import read_and_check
from hutong.pipelines.jobs import JOBS, join, lookup, pagerank, sessions, windows
from hutong.pipelines.jobs.events import duration, named_frame, only_frame
from hutong.pipelines.jobs.job import filled

MINE = (join, lookup, pagerank, sessions, windows)
FRAMES: Any = {"web": "a frame", "shop": "another"}


@pytest.mark.parametrize("text", ["10 minutes", "1 hour 30 minutes", " 5 seconds ", "0 seconds", "1 week"])
def test_lengths_of_time_are_as_spark_writes_them(text: str) -> None:
    assert duration({"gap": text}, "gap") == text.strip()


@pytest.mark.parametrize("text", ["", "10", "minutes", "10 m", "-1 hours", "1 month", "1 hour; DROP", "1.5 hours"])
def test_what_is_no_length_of_time_is_told(text: str) -> None:
    with pytest.raises(UsageError, match=f"the parameter gap is '{text}', which is no length of time"):
        duration({"gap": text}, "gap")


def test_one_source_needs_no_name_and_several_do() -> None:
    assert only_frame({"web": FRAMES["web"]}, {}) is FRAMES["web"]
    assert only_frame(FRAMES, {"source": "shop"}) is FRAMES["shop"]
    with pytest.raises(UsageError, match="the parameter source is missing: set it to one of the sources web, shop"):
        only_frame(FRAMES, {})
    with pytest.raises(UsageError, match="the parameter left is 'wbe', which is no source: take one of web, shop"):
        named_frame(FRAMES, {"left": "wbe"}, "left")


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"left": "web"}, "the parameter right is missing: set it to one of the sources web, shop"),
        ({"left": "web", "right": "web"}, "the parameters left and right are both web: name two sources"),
        ({"left": "web", "right": "shop"}, "the parameter on is missing: set it to a condition such as web.key = shop"),
        (
            {"left": "web", "right": "shop", "on": "a = b", "kind": "cross"},
            "the parameter kind is 'cross': take",
        ),
        (
            {"left": "web", "right": "shop", "on": "a = b", "after": "soon"},
            "the parameter after is 'soon', which",
        ),
    ],
)
def test_a_join_that_is_not_told_enough_says_so(parameters: dict[str, str], told: str) -> None:
    pytest.importorskip("pyspark")
    with pytest.raises(UsageError, match=told):
        join.transform(FRAMES, parameters)


@pytest.mark.parametrize("module", MINE)
def test_every_job_is_in_the_library_with_a_template_that_is_sound(module: Any, tmp_path: Path) -> None:
    job = JOBS[module.JOB.name]
    assert job is module.JOB
    file = tmp_path / "mine.toml"
    file.write_text(filled(job.template or "", "mine", "127.0.0.1:9092"))
    pipeline, problems = read_and_check(file)
    assert problems.found == []
    assert pipeline.transform.job == job.name
