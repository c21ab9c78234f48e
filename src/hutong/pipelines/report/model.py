"""The model of one Spark application: its jobs and stages, its streaming queries, its failures.

Filled by the readers (event logs, progress lines, a live driver) and read by the page. Everything is bounded: of very
long runs the newest part is kept, and `notes` mention the omission.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hutong.pipelines.engine.micro_batches import MicroBatch
from hutong.pipelines.engine.stages import Stage

JOB_COUNT_MAX = 20_000
STAGE_COUNT_MAX = 40_000
BATCH_COUNT_MAX = 50_000
FAILURE_COUNT_MAX = 200
MESSAGE_CHARACTERS_MAX = 4000


@dataclass(slots=True)
class SparkJob:
    """One job. `work` names what it belongs to: a micro-batch, a SQL statement, a group, or itself."""

    job_id: int
    work: str
    name: str
    stage_ids: tuple[int, ...]
    submitted_ms: int | None = None
    ended_ms: int | None = None
    query_id: str = ""
    batch_id: int | None = None
    status: str = "RUNNING"


@dataclass(frozen=True, slots=True)
class RunFailure:
    """Something that went wrong, as often as it did."""

    where: str
    message: str
    time_ms: int | None = None
    count: int = 1


@dataclass(slots=True)
class Query:
    """A streaming query and its micro-batches."""

    query_id: str
    name: str = ""
    started_ms: int | None = None
    ended_ms: int | None = None
    batches: dict[tuple[str, int, int], MicroBatch] = field(default_factory=dict)
    """By run, batch and start, so that repeated reports count once."""


@dataclass(frozen=True, slots=True)
class Sibling:
    """One of the runs of a pipeline."""

    run_id: str
    state: str
    started_ms: int
    attempt: int = 1
    error: str | None = None


@dataclass(slots=True)
class SparkRun:
    """One run of one application."""

    name: str = ""
    application_id: str = ""
    spark_version: str = ""
    master: str = ""
    state: str = ""
    """As the pipeline's own record has it, if there is one."""
    started_ms: int | None = None
    ended_ms: int | None = None
    jobs: dict[int, SparkJob] = field(default_factory=dict)
    stages: dict[int, Stage] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    failures: dict[tuple[str, str], RunFailure] = field(default_factory=dict)
    run_id: str = ""
    siblings: list[Sibling] = field(default_factory=list)
    """All runs of the pipeline, this one too, oldest first."""
    notes: list[str] = field(default_factory=list)

    def add_job(self, job: SparkJob) -> None:
        self.jobs[job.job_id] = job
        if len(self.jobs) > JOB_COUNT_MAX:
            self.jobs.pop(next(iter(self.jobs)))
            self.note(f"Of more than {JOB_COUNT_MAX:,} jobs, the newest are shown.")

    def add_stage(self, stage: Stage) -> None:
        self.stages[stage.stage_id] = stage
        if len(self.stages) > STAGE_COUNT_MAX:
            self.stages.pop(next(iter(self.stages)))
            self.note(f"Of more than {STAGE_COUNT_MAX:,} stages, the newest are shown.")

    def add_batch(self, batch: MicroBatch) -> None:
        query = self.query(batch.query_id)
        query.name = batch.query
        query.batches[batch.run_id, batch.batch_id, batch.started_ms] = batch
        if len(query.batches) > BATCH_COUNT_MAX:
            query.batches.pop(next(iter(query.batches)))
            self.note(f"Of more than {BATCH_COUNT_MAX:,} micro-batches, the newest are shown.")

    def add_failure(self, where: str, message: str, time_ms: int | None = None) -> None:
        """Failures of the same words are one, counted."""
        message = message[:MESSAGE_CHARACTERS_MAX]
        known = self.failures.get((where, message))
        if known is None and len(self.failures) >= FAILURE_COUNT_MAX:
            self.note(f"Of more than {FAILURE_COUNT_MAX} different failures, the first are shown.")
            return
        count = known.count + 1 if known else 1
        self.failures[where, message] = RunFailure(where, message, time_ms, count)

    def query(self, query_id: str) -> Query:
        return self.queries.setdefault(query_id, Query(query_id, query_id[:8]))

    def note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def works(self) -> dict[str, list[SparkJob]]:
        """Jobs by what they belong to, oldest first."""
        found: dict[str, list[SparkJob]] = {}
        for job in self.jobs.values():
            found.setdefault(job.work, []).append(job)
        return found

    def stages_of(self, jobs: Iterable[SparkJob]) -> list[Stage]:
        """The stages of some jobs, each once."""
        wanted = dict.fromkeys(stage_id for job in jobs for stage_id in job.stage_ids)
        return [self.stages[stage_id] for stage_id in wanted if stage_id in self.stages]
