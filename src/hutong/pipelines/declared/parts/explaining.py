"""Explains a pipeline: schemas, plans, lineage and stages, found by computing it once over a few records.

The sources are read as tables, up to `SAMPLE_RECORDS` of each partition of a topic, and nothing is written: no sink is
touched and no checkpoint. Plans are not changed while they run (adaptive execution is off), as in streams with state.
"""

import io
import json
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hutong.pipelines.client.cluster import EARLIEST, LATEST
from hutong.pipelines.client.clusters import open_cluster
from hutong.pipelines.declared.check.checking import job_of, runs_by_itself
from hutong.pipelines.declared.check.options import reader_options
from hutong.pipelines.declared.declare.definition import BATCH, TOPIC, Pipeline, Sink, Source
from hutong.pipelines.declared.parts.building import frames_of, output_of, transformed
from hutong.pipelines.engine.stages import Stage, job_group, lineage_text, shuffles, stages_of, stages_text
from hutong.pipelines.source.options import source_options
from hutong.pipelines.source.planning import at, subscribed, to_json
from hutong.pipelines.source.registered_schemas import not_looked_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SAMPLE_RECORDS = 1_000
SETTINGS: Mapping[str, str] = {"spark.sql.adaptive.enabled": "false"}
INDENT = "  "


@dataclass(frozen=True, slots=True)
class Explained:
    text: str
    stages: list[Stage] = field(default_factory=list)


def explain(session: "SparkSession", pipeline: Pipeline) -> Explained:
    """Raises UsageError where the pipeline cannot be built or its topics cannot be asked."""
    sampled = replace(
        pipeline,
        trigger=BATCH,
        sources={name: sample(pipeline, source) for name, source in pipeline.sources.items()},
    )
    frames = frames_of(session, sampled, streaming=False)
    parts = [described(pipeline)]
    parts += [f"Schema of {name}\n\n{_schema(frame)}" for name, frame in frames.items()]
    if runs_by_itself(pipeline.transform):
        parts.append("This job reads and writes by itself, in several steps: its plan shows when it runs.")
        return Explained("\n\n".join(parts))
    outputs = transformed(session, sampled, frames)
    stages: list[Stage] = []
    for name, sink in sampled.sinks.items():
        frame = output_of(name, sink, outputs)
        with job_group(session.sparkContext, name) as group:
            rows = frame.rdd
            rows.count()
        ran = stages_of(session.sparkContext, group, shuffles(rows))
        stages += ran
        parts += [
            f"Schema of what goes into {name}\n\n{_schema(frame)}",
            f"Physical plan of {name}\n\n{_plan(frame)}",
            f"Lineage of {name}\n\n{lineage_text(rows)}",
            f"Stages of {name}, over up to {SAMPLE_RECORDS:,} records of each partition\n\n{stages_text(ran)}",
        ]
    return Explained("\n\n".join(parts), stages)


def described(pipeline: Pipeline) -> str:
    """Describe the declaration in words."""
    how = f"a batch every {pipeline.trigger}" if pipeline.is_endless else pipeline.trigger
    lines = [f"{pipeline.name} ({how})", "", "Sources"]
    lines += [f"{INDENT}{name}: {_source(pipeline, source)}" for name, source in pipeline.sources.items()]
    lines += ["", "Transform", f"{INDENT}{_transform(pipeline)}", "", "Sinks"]
    lines += [f"{INDENT}{name}: {_sink(sink)}" for name, sink in pipeline.sinks.items()]
    return "\n".join(lines)


def sample(pipeline: Pipeline, source: Source) -> Source:
    """A source that reads the first records only."""
    if source.kind != TOPIC:
        return source
    # As a table: what only a stream takes is left out.
    options = {name: text for name, text in source.options.items() if not _chooses_offsets(name)}
    whole = replace(source, starting="earliest", options=options)
    given = reader_options(replace(pipeline, trigger=BATCH), whole)
    wanted = source_options({**given, **not_looked_up(given)}, streaming=False)
    cluster = open_cluster(wanted.cluster)
    try:
        partitions = subscribed(cluster, wanted.subscription)
        first, end = at(cluster, partitions, EARLIEST), at(cluster, partitions, LATEST)
    finally:
        cluster.close()
    last = {where: min(end[where], first[where] + SAMPLE_RECORDS) for where in partitions}
    ends = {"endingOffsets": json.dumps(to_json(last))}
    return replace(whole, starting=json.dumps(to_json(first)), options=options | ends)


def _chooses_offsets(option: str) -> bool:
    folded = option.lower()
    return folded.startswith(("starting", "ending", "maxoffsets", "minoffsets", "maxtriggerdelay", "refresh"))


def _source(pipeline: Pipeline, source: Source) -> str:
    how = "as a table, " if source.static else ""
    if source.kind != TOPIC:
        return f"{how}{source.kind} in {source.path}"
    if source.pattern is not None:
        what = f"topics that match {source.pattern}"
    else:
        what = f"topic{'s' if len(source.topic_names) > 1 else ''} {', '.join(source.topic_names)}"
    decoded = [f"{key} as {text}" for key, text in (("key", source.key_format), ("value", source.value_format))]
    late = f", rows up to {source.watermark.delay} late by {source.watermark.column}" if source.watermark else ""
    at_broker = f"at {source.bootstrap or pipeline.bootstrap}"
    return f"{how}{what} {at_broker}, from {source.starting}, {', '.join(decoded)}{late}"


def _transform(pipeline: Pipeline) -> str:
    transform = pipeline.transform
    if isinstance(transform.sql, str):
        return " ".join(transform.sql.split())
    if transform.sql is not None:
        return f"\n{INDENT}".join(f"{name}: {' '.join(query.split())}" for name, query in transform.sql.items())
    job = job_of(transform)
    if job is not None:
        set_to = ", ".join(f"{name} = {text}" for name, text in job.with_defaults(transform.parameters).items())
        return f"job {job.name}: {job.summary}{f' ({set_to})' if set_to else ''}"
    if callable(transform.function):
        return f"function {transform.function.__name__}"
    return f"function {transform.function}" if transform.function is not None else "none: rows go on as they come"


def _sink(sink: Sink) -> str:
    what = f"{sink.frame} to " if sink.frame is not None else ""
    match sink.kind:
        case "topic":
            return f"{what}topic {sink.topic or 'named in each row'}, {sink.delivery}"
        case "console":
            return f"{what}the console"
        case _:
            return f"{what}{sink.kind} in {sink.path}"


def _schema(frame: "DataFrame") -> str:
    return str(frame._jdf.schema().treeString()).rstrip()


def _plan(frame: "DataFrame") -> str:
    plan = io.StringIO()
    with redirect_stdout(plan):
        frame.explain("formatted")
    return plan.getvalue().strip()
