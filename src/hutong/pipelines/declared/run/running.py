"""Runs a pipeline once on an open session: starts its queries, follows them, stops them after a whole batch.

Each sink is a query with its own checkpoint. A query that shall stop first finishes its batch. Stopping it earlier
would lose no data but waste the batch's work, which would be repeated. Knows nothing of processes and signals: those
are the driver's.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hutong.foundation.clock import Clock
from hutong.pipelines.declared.check.checking import job_of, runs_by_itself
from hutong.pipelines.declared.check.options import format_of, writer_options
from hutong.pipelines.declared.declare.definition import AVAILABLE_NOW, CONSOLE, Pipeline, Sink
from hutong.pipelines.declared.parts.building import frames_of, output_of, place, transformed
from hutong.pipelines.declared.run.progress_log import ProgressLog
from hutong.pipelines.declared.run.run_folder import PipelineFolder
from hutong.pipelines.jobs.job import Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

REFRESH_S = 0.25
BATCH_MODES = {"append": "append", "update": "append", "complete": "overwrite"}


@dataclass(frozen=True, slots=True)
class RunContext:
    """Parameters of a run that are not part of the pipeline."""

    folder: PipelineFolder
    log: ProgressLog
    stop: threading.Event
    """Set when the user asks for the end."""
    show: Callable[[str], None]
    clock: Clock
    grace_s: int


def run(session: "SparkSession", pipeline: Pipeline, around: RunContext) -> str | None:
    """Run until the input ends or the user stops it. Return the text that a job has for the user, if any."""
    frames = frames_of(session, pipeline)
    if runs_by_itself(pipeline.transform):
        return _run_job(session, pipeline, frames, around)
    outputs = transformed(session, pipeline, frames)
    ready = {name: output_of(name, sink, outputs) for name, sink in pipeline.sinks.items()}
    # A static source makes a batch frame even in a stream: then each sink is written once.
    if not any(frame.isStreaming for frame in ready.values()):
        for name, frame in ready.items():
            if not around.stop.is_set():
                around.show(f"writing {name}")
                _write(pipeline, pipeline.sinks[name], frame)
        return None
    queries: list[StreamingQuery] = []
    with around.log.attached(session):
        try:
            for name, frame in ready.items():
                queries.append(_start(pipeline, name, frame, around.folder))
            _follow(queries, around)
        finally:
            for query in queries:
                query.stop()
            around.log.wait_until_ended(queries)
    return None


def _run_job(
    session: "SparkSession", pipeline: Pipeline, frames: "Mapping[str, DataFrame]", around: RunContext
) -> str | None:
    job = job_of(pipeline.transform)
    assert job is not None  # `checking` refuses others
    work = Work(
        session=session,
        frames=frames,
        parameters=job.with_defaults(pipeline.transform.parameters),
        pipeline=pipeline,
        checkpoint=around.folder.checkpoint,
        stop=around.stop,
        show=around.show,
    )
    with around.log.attached(session):
        summary = import_module(job.module_name).run(work)
    return summary if isinstance(summary, str) else None


def _start(pipeline: Pipeline, name: str, frame: "DataFrame", folder: PipelineFolder) -> "StreamingQuery":
    sink = pipeline.sinks[name]
    writer = frame.writeStream.format(format_of(sink.kind)).queryName(name).outputMode(sink.output_mode)
    writer = writer.option("checkpointLocation", str(folder.checkpoint / name))
    writer = writer.options(**writer_options(pipeline, sink))
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    if pipeline.trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=pipeline.trigger)
    with place(f"sinks.{name}"):
        return writer.start()


def _write(pipeline: Pipeline, sink: Sink, frame: "DataFrame") -> None:
    # `show` takes the options that the console sink of streams has.
    if sink.kind == CONSOLE:
        frame.show(int(sink.options.get("numRows", "20")), truncate=sink.options.get("truncate", "true") == "true")
        return
    writer = frame.write.format(format_of(sink.kind)).options(**writer_options(pipeline, sink))
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    writer.mode(BATCH_MODES[sink.output_mode]).save()


def _follow(queries: "list[StreamingQuery]", around: RunContext) -> None:
    """Until all queries end or the user asks for the end. Raises what a query failed with."""
    while any(query.isActive for query in queries) and not around.stop.wait(REFRESH_S):
        for query in queries:
            _raise_failure(query)
        around.show(around.log.line)
    # The user asked for the end; otherwise all queries have ended by themselves.
    if around.stop.is_set():
        around.show("finishing the batch")
        _finish_batches(queries, around)
    for query in queries:
        _raise_failure(query)


def _finish_batches(queries: "list[StreamingQuery]", around: RunContext) -> None:
    """End each query as soon as it is between two batches, or when its time is over."""
    deadline_ms = around.clock.monotonic_ms() + around.grace_s * 1000
    done_before = {query.id: around.log.batches_done(query.id) for query in queries}
    left = [query for query in queries if query.isActive]
    while left and around.clock.monotonic_ms() < deadline_ms:
        for query in list(left):
            is_between = not _is_busy(query) or around.log.batches_done(query.id) > done_before[query.id]
            if is_between or not query.isActive:
                query.stop()
                left.remove(query)
        if left:
            around.log.wait(REFRESH_S)


def _is_busy(query: "StreamingQuery") -> bool:
    status: dict[str, Any] = query.status
    return bool(status["isTriggerActive"])


def _raise_failure(query: "StreamingQuery") -> None:
    failure = None if query.isActive else query.exception()
    if failure is not None:
        raise failure
