"""Builds the model of a run from the events of Spark's event log, one by one.

The log holds what the REST API does not: which stages a stage waits for, the operators inside a stage, and each
micro-batch of each streaming query. A skipped stage has a new number. If the log has the stage that made the same
output, that one replaces it, so that the picture connects several jobs.

Strategy: `read_event` gets one event as parsed JSON. A deviation from Spark's format makes the event unreadable; such
events are counted and never raise an error. Knows nothing of files.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from hutong.pipelines.engine.micro_batches import micro_batch
from hutong.pipelines.engine.stages import Stage, short_name
from hutong.pipelines.report.model import STAGE_COUNT_MAX, SparkJob, SparkRun

Event = Mapping[str, Any]

LISTENER = "org.apache.spark.sql.streaming.StreamingQueryListener$"
PARENT_COUNT_MAX = 1000
OPERATOR_COUNT_MAX = 12
EDGE_OPERATORS = ("WholeStageCodegen", "Exchange", "AQEShuffleRead", "ShuffleQueryStage")
"""Operators by which every stage begins or ends."""
METRICS = {
    "internal.metrics.executorRunTime": "run_time_ms",
    "internal.metrics.memoryBytesSpilled": "spilled_bytes",
    "internal.metrics.diskBytesSpilled": "spilled_bytes",
    "internal.metrics.shuffle.read.localBytesRead": "shuffle_read_bytes",
    "internal.metrics.shuffle.read.remoteBytesRead": "shuffle_read_bytes",
    "internal.metrics.shuffle.write.bytesWritten": "shuffle_write_bytes",
    "internal.metrics.input.recordsRead": "input_row_count",
}
"""Spark's sums over the tasks of a stage, and where they go; several of one name are added."""
STOPPED_BY_HAND = "SPARK_JOB_CANCELLED"
PROPERTIES = "Properties"


class EventReader:
    """Fills `run` from events, in the order of the log."""

    def __init__(self, run: SparkRun) -> None:
        self.run = run
        self.unreadable_count = 0
        self._maker_of_rdd: dict[int, int] = {}
        self._stands_for: dict[int, int] = {}
        self._handlers: dict[str, Callable[[Event], None]] = {
            "SparkListenerLogStart": self._log_start,
            "SparkListenerApplicationStart": self._application_start,
            "SparkListenerApplicationEnd": self._application_end,
            "SparkListenerEnvironmentUpdate": self._environment,
            "SparkListenerJobStart": self._job_start,
            "SparkListenerJobEnd": self._job_end,
            "SparkListenerStageSubmitted": self._stage,
            "SparkListenerStageCompleted": self._stage,
            "SparkListenerTaskEnd": self._task_end,
            f"{LISTENER}QueryStartedEvent": self._query_started,
            f"{LISTENER}QueryProgressEvent": self._query_progress,
            f"{LISTENER}QueryTerminatedEvent": self._query_terminated,
        }

    def wants(self, name: str) -> bool:
        """Return True if events of this name are used; others need not be parsed."""
        return name in self._handlers

    def read_event(self, event: object) -> None:
        try:
            # A line of valid JSON may be a list or a number.
            if not isinstance(event, dict):
                raise TypeError
            # Every version of Spark adds events; those without a handler are skipped.
            handler = self._handlers.get(event["Event"])
            if handler is not None:
                handler(event)
        # Logs of other versions and damaged lines: one unreadable event must not cost the rest of the log.
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
            self.unreadable_count += 1

    def finish(self) -> None:
        """To be called after the last event: puts makers in the place of what was skipped."""
        for job in self.run.jobs.values():
            job.stage_ids = self._made(job.stage_ids)
        # Only now, since a skipped stage may come before the one that replaces it.
        for number, stage in self.run.stages.items():
            if stage.waits_for:
                self.run.stages[number] = replace(stage, waits_for=self._made(stage.waits_for))

    def _made(self, stage_ids: Iterable[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self._stands_for.get(number, number) for number in stage_ids))

    def _log_start(self, event: Event) -> None:
        self.run.spark_version = str(event["Spark Version"])

    def _application_start(self, event: Event) -> None:
        self.run.name = str(event["App Name"])
        self.run.application_id = str(event.get("App ID") or "")
        self.run.started_ms = _moment(event["Timestamp"])

    def _application_end(self, event: Event) -> None:
        self.run.ended_ms = _moment(event["Timestamp"])

    def _environment(self, event: Event) -> None:
        self.run.master = str(dict(event["Spark Properties"]).get("spark.master", ""))

    def _job_start(self, event: Event) -> None:
        job_id, properties = int(event["Job ID"]), dict(event.get(PROPERTIES) or {})
        stages = sorted(event.get("Stage Infos", ()), key=lambda info: int(info["Stage ID"]))
        for info in stages:
            # A stage shared by several jobs is announced by each of them.
            if int(info["Stage ID"]) not in self.run.stages:
                self._expect(info, is_last=info is stages[-1])
        query_id, batch = str(properties.get("sql.streaming.queryId") or ""), properties.get("streaming.sql.batchId")
        job = SparkJob(
            job_id=job_id,
            work=_work(job_id, query_id, batch, properties),
            name=_job_name(properties, stages),
            stage_ids=tuple(int(number) for number in event["Stage IDs"]),
            submitted_ms=_moment(event["Submission Time"]),
            query_id=query_id,
            batch_id=int(batch) if batch is not None else None,
        )
        self.run.add_job(job)

    def _expect(self, info: Event, *, is_last: bool) -> None:
        """A stage that a job may run. If its output is there already, Spark will skip it, but never a job's last."""
        maker = self._maker_of_rdd.get(_last_rdd(info))
        # Spark skips a stage if its shuffle output exists. A job's last stage has no shuffle output, so it always runs.
        if maker is not None and not is_last:
            _keep(self._stands_for, int(info["Stage ID"]), maker)
        else:
            self.run.add_stage(self._read_stage(info, "SKIPPED"))

    def _job_end(self, event: Event) -> None:
        job = self.run.jobs.get(int(event["Job ID"]))
        result = dict(event["Job Result"])
        failed = result.get("Result") != "JobSucceeded"
        # The key may be absent or null.
        message = str(dict(result.get("Exception") or {}).get("Message") or "")
        stopped = STOPPED_BY_HAND in message
        # The model keeps the newest jobs only, so a long one's may be gone.
        if job is not None:
            job.ended_ms = _moment(event["Completion Time"])
            # Stopping a query by hand ends its job with an exception, which is no failure.
            job.status = "STOPPED" if stopped else "FAILED" if failed else "SUCCEEDED"
        if failed and not stopped:
            self.run.add_failure(
                f"job {event['Job ID']}", message or "the job failed", _moment(event["Completion Time"])
            )

    def _stage(self, event: Event) -> None:
        info = dict(event["Stage Info"])
        ended = event["Event"] == "SparkListenerStageCompleted"
        reason = str(info.get("Failure Reason") or "")
        # The events have no status: a reason means failure, and its words show a stop by hand.
        status = (
            "ACTIVE" if not ended else "STOPPED" if STOPPED_BY_HAND in reason else "FAILED" if reason else "COMPLETE"
        )
        stage = self._read_stage(info, status)
        before = self.run.stages.get(stage.stage_id)
        if before is not None:
            # Sums of tasks are ours: the event of the stage's end has no failed tasks.
            stage = replace(stage, failed_task_count=before.failed_task_count, longest_task_ms=before.longest_task_ms)
        # It runs after all, for example because shuffle files were lost.
        self._stands_for.pop(stage.stage_id, None)
        self.run.add_stage(stage)
        # Only complete output can be reused by a later job.
        if status == "COMPLETE":
            _keep(self._maker_of_rdd, _last_rdd(info), stage.stage_id)
        if status == "FAILED":
            self.run.add_failure(f"stage {stage.stage_id}", reason, _moment(info.get("Completion Time")))

    def _task_end(self, event: Event) -> None:
        stage = self.run.stages.get(int(event["Stage ID"]))
        reason, task = dict(event["Task End Reason"]), dict(event["Task Info"])
        # Clocks of executors may differ.
        took_ms = max(0, int(task["Finish Time"]) - int(task["Launch Time"]))
        # TaskKilled is a speculative twin that lost, or a task of a stopped query.
        failed = reason.get("Reason") not in {"Success", "TaskKilled"}
        # The model keeps the newest stages only.
        if stage is not None:
            self.run.stages[stage.stage_id] = replace(
                stage,
                longest_task_ms=max(stage.longest_task_ms, took_ms),
                failed_task_count=stage.failed_task_count + failed,
            )
        if failed:
            # Each kind of failure has its text under another key.
            words = reason.get("Description") or reason.get("Loss Reason") or reason.get("Message") or reason["Reason"]
            where = f"task {task['Index']} of stage {event['Stage ID']}, attempt {int(task['Attempt']) + 1}"
            self.run.add_failure(where, str(words), _moment(task["Finish Time"]))

    def _query_started(self, event: Event) -> None:
        query = self.run.query(str(event["id"]))
        query.name = str(event.get("name") or query.name)

    def _query_progress(self, event: Event) -> None:
        self.run.add_batch(micro_batch(event["progress"]))

    def _query_terminated(self, event: Event) -> None:
        error = event.get("exception")
        # A query that was stopped has no exception.
        if error:
            self.run.add_failure(f"query {self.run.query(str(event['id'])).name}", str(error))

    def _read_stage(self, info: Event, status: str) -> Stage:
        sums = dict.fromkeys(METRICS.values(), 0)
        for reported in info.get("Accumulables", ()):
            into = METRICS.get(reported.get("Name", ""))
            # The other accumulators are a user's own, or figures that the page does not show.
            if into is not None:
                # Several accumulators share one figure: memory and disk spill, for example.
                sums[into] += max(0, int(reported.get("Value", 0)))
        # Bounded, since a log can be forged and the page draws an edge for each.
        parents = [int(parent) for parent in list(info.get("Parent IDs", ()))[:PARENT_COUNT_MAX]]
        number = int(info["Stage ID"])
        return Stage(
            stage_id=number,
            name=short_name(str(info["Stage Name"])),
            status=status,
            task_count=int(info["Number of Tasks"]),
            rdd_ids=frozenset(),
            waits_for=tuple(parents),
            operators=_operators(info),
            submitted_ms=_moment(info.get("Submission Time")),
            ended_ms=_moment(info.get("Completion Time")),
            **sums,
        )


def _work(job_id: int, query_id: str, batch: object, properties: Event) -> str:
    # A micro-batch may run several jobs: query and batch number join them.
    if query_id:
        return f"query {query_id} batch {batch}"
    # The outermost first: adaptive execution splits a query into several executions.
    for name in ("spark.sql.execution.root.id", "spark.sql.execution.id", "spark.jobGroup.id"):
        if properties.get(name) is not None:
            return f"{name} {properties[name]}"
    return f"job {job_id}"


def _job_name(properties: Event, stages: list[dict[str, Any]]) -> str:
    """Return the program's description of the job, else the place in the program that started it."""
    reported = str(properties.get("spark.job.description") or "").strip().partition("\n")[0]
    last = max(stages, key=lambda info: int(info["Stage ID"]), default={"Stage Name": ""})
    return reported or short_name(str(last["Stage Name"]))


def _keep(known: dict[int, int], key: int, value: int) -> None:
    """Add to a memory that is bounded as the stages are."""
    known[key] = value
    if len(known) > STAGE_COUNT_MAX:
        # The oldest entry.
        known.pop(next(iter(known)))


def _last_rdd(info: Event) -> int:
    return max((int(rdd["RDD ID"]) for rdd in info.get("RDD Info", ())), default=-1)


def _operators(info: Event) -> tuple[str, ...]:
    """Return Spark SQL's operators in a stage, in the order of the data; empty for a program's own RDDs."""
    found: dict[str, None] = {}
    for rdd in sorted(info.get("RDD Info", ()), key=lambda rdd: int(rdd["RDD ID"])):
        scope = json.loads(rdd.get("Scope") or "{}")
        name = str(scope.get("name", ""))
        # Scopes of a program's own RDDs have other ids, and names without meaning to a user.
        if str(scope.get("id", "")).startswith("spark_plan_") and not name.startswith(EDGE_OPERATORS):
            found[name] = None
    return tuple(found)[:OPERATOR_COUNT_MAX]


def _moment(reported: Any) -> int | None:
    return None if reported is None else int(reported)
