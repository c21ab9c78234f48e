"""What a run is made of, read from the events of a log, whole and damaged."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.pipelines.report.spark_events import (
    BEGIN,
    QUERY,
    job_end,
    job_start,
    rdd,
    stage,
    stage_end,
    task_end,
    whole_log,
)

from hutong.pipelines.report.collect.events import EventReader
from hutong.pipelines.report.model import SparkRun
from hutong.pipelines.report.render.page import page


def read(events: list[dict[str, Any]]) -> tuple[SparkRun, EventReader]:
    run = SparkRun()
    reader = EventReader(run)
    for event in events:
        reader.read_event(event)
    reader.finish()
    return run, reader


def test_a_streaming_application() -> None:
    run, reader = read(whole_log())
    assert (run.name, run.application_id, run.spark_version, run.master) == ("mine", "local-1", "4.3.0", "local[2]")
    assert (run.started_ms, run.ended_ms, reader.unreadable_count) == (500, 9000, 0)
    assert [(job.name, job.work, job.batch_id, job.status) for job in run.jobs.values()] == [
        ("hours", f"query {QUERY} batch 0", 0, "SUCCEEDED"),
        ("hours", f"query {QUERY} batch 1", 1, "SUCCEEDED"),
    ]
    scan, save = run.stages[0], run.stages[1]
    assert (scan.operators, scan.waits_for, scan.longest_task_ms) == (("MicroBatchScan",), (), 90)
    assert (save.operators, save.waits_for, save.name) == (("StateStoreSave",), (0,), "start at mine.py:3")
    assert (save.run_time_ms, save.shuffle_read_bytes, save.shuffle_write_bytes) == (1500, 120, 2048)
    assert (save.input_row_count, save.status, save.ended_ms) == (19999, "COMPLETE", 1600)
    (query,) = run.queries.values()
    assert [(batch.batch_id, batch.row_count, batch.lag) for batch in query.batches.values()] == [
        (0, 10, 5),
        (1, 10, 5),
    ]
    assert run.failures == {}


def test_a_skipped_stage_gives_way_to_the_one_that_made_its_output() -> None:
    made = stage(0, (), [rdd(0), rdd(1)])
    first = [job_start(0, [made], spark_sql_execution_id="7"), stage_end(made), job_end(0)]
    again, last = stage(1, (), [rdd(0), rdd(1)]), stage(2, (1,), [rdd(2)])
    then = [job_start(1, [last, again], spark_sql_execution_id="7"), stage_end(last), job_end(1)]
    run, _ = read(BEGIN + first + then)
    assert sorted(run.stages) == [0, 2]
    assert run.stages[2].waits_for == (0,)
    ((_, jobs),) = run.works().items()
    assert [told.stage_id for told in run.stages_of(jobs)] == [0, 2]


def test_a_stage_whose_maker_is_not_in_the_log_is_told_as_skipped() -> None:
    again, last = stage(1, (), [rdd(0)]), stage(2, (1,), [rdd(2)])
    run, _ = read([job_start(1, [again, last]), stage_end(last), job_end(1)])
    assert [told.status for told in run.stages.values()] == ["SKIPPED", "COMPLETE"]


def test_the_same_rdd_computed_twice_is_two_stages() -> None:
    both = [stage(number, (), [rdd(4)]) for number in (0, 1)]
    run, _ = read([event for info in both for event in (job_start(info["Stage ID"], [info]), stage_end(info))])
    assert [job.stage_ids for job in run.jobs.values()] == [(0,), (1,)]
    assert sorted(run.stages) == [0, 1]


def test_failures_are_counted_and_what_was_stopped_is_none() -> None:
    info = stage(0, (), [rdd(0)])
    events = [
        job_start(0, [info]),
        task_end(0, 5, Reason="ExceptionFailure", Description="no good"),
        task_end(0, 7, Reason="ExceptionFailure", Description="no good"),
        task_end(0, 9, Reason="TaskKilled"),
        stage_end(info, **{"Failure Reason": "task failed"}),
        job_end(0, "job failed"),
        job_end(0, "[SPARK_JOB_CANCELLED] Job 0 cancelled"),
    ]
    run, _ = read(events)
    assert [(failure.where, failure.message, failure.count) for failure in run.failures.values()] == [
        ("task 1 of stage 0, attempt 1", "no good", 2),
        ("stage 0", "task failed", 1),
        ("job 0", "job failed", 1),
    ]
    assert (run.stages[0].status, run.stages[0].failed_task_count, run.stages[0].longest_task_ms) == ("FAILED", 2, 9)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_damaged_events_never_end_the_reading(data: st.DataObject) -> None:
    events = copy.deepcopy(whole_log(1))
    for _ in range(data.draw(st.integers(1, 3))):
        place: Any = events
        while isinstance(place, dict | list) and place:
            key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
                place[key] = data.draw(anything)
                break
            place = place[key]
    run, _ = read(events)
    assert page(run).endswith("</html>\n")
