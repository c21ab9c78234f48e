"""Runs the jobs: checks what can be checked before Spark starts, runs, writes the result files, reports what was done.

Every failure of Spark or of a broker becomes a UsageError of one sentence.
"""

import io
import threading
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hutong.foundation.clock import Clock
from hutong.foundation.errors import PeerError, UsageError
from hutong.pipelines.client.cluster import EARLIEST, LATEST, TopicMetadata, parse_bootstrap
from hutong.pipelines.client.clusters import open_cluster
from hutong.pipelines.engine.failures import EXIT_CODES, plain_errors
from hutong.pipelines.engine.interrupts import as_event
from hutong.pipelines.engine.progress import Show, stream_line, watched
from hutong.pipelines.engine.stages import job_group, lineage_text, shuffles, stages_of, stages_text
from hutong.pipelines.jobs import access_log
from hutong.pipelines.jobs.pagerank.links import SAMPLE, Link, Rank, links_of
from hutong.pipelines.jobs.pagerank.tuples import page_rank, ranking
from hutong.pipelines.results import prepare_folder, write_csv, write_text
from hutong.pipelines.source.options import Subscription, source_options
from hutong.pipelines.source.planning import at, subscribed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHECK_MS_MAX = 3_000
"""The time for the broker to answer before anything is started."""
SMALL_RECORDS_MAX = 2_000_000
CHECKPOINTS = "checkpoint"
TRIGGER = "1 second"
REFRESH_S = 1
PER_HOUR, TOP_PATHS = "per-hour.csv", "top-paths.csv"
RANKS, LINEAGE, STAGES = "ranks.csv", "lineage.txt", "stages.txt"


@dataclass(frozen=True, slots=True)
class Input:
    """A topic that is there."""

    bootstrap: str
    topic: TopicMetadata
    record_count: int
    """The number of records at the time of the check, including deleted and control records."""
    kafka: Mapping[str, str] = field(default_factory=dict)
    """Further options of the data source, by Kafka's names after `kafka.`: security settings, for example."""

    @property
    def is_small(self) -> bool:
        """Return True if starting Spark costs more than reading all of it."""
        return self.record_count <= SMALL_RECORDS_MAX

    @property
    def options(self) -> dict[str, str]:
        """The options of the data source."""
        return _options(self.bootstrap, self.topic.name, self.kafka)


@dataclass(frozen=True, slots=True)
class Finished:
    """Results of a run."""

    record_count: int
    seconds: float
    files: tuple[Path, ...]
    notes: str = ""


def check_input(bootstrap: str, topic: str, kafka: Mapping[str, str] | None = None) -> Input:
    """Raises UsageError when the broker cannot be reached or the topic does not exist."""
    given = dict(kafka or {})
    try:
        parse_bootstrap(bootstrap)
    except ValueError as error:
        raise UsageError(f"--bootstrap: {error}") from error
    settings = source_options(_options(bootstrap, topic, given), streaming=False).cluster
    cluster = open_cluster(replace(settings, retry_ms=CHECK_MS_MAX))
    try:
        partitions = subscribed(cluster, Subscription(names=(topic,)))
        first, end = at(cluster, partitions, EARLIEST), at(cluster, partitions, LATEST)
        found = cluster.topics([topic])[topic]
    except PeerError as error:
        raise UsageError(str(error), EXIT_CODES[type(error).__name__]) from error
    finally:
        cluster.close()
    return Input(bootstrap, found, sum(end.values()) - sum(first.values()), given)


def _options(bootstrap: str, topic: str, kafka: Mapping[str, str]) -> dict[str, str]:
    named = {f"kafka.{name.removeprefix('kafka.')}": value for name, value in kafka.items()}
    return {**named, "kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}


def run_pagerank(
    session: "SparkSession", source: Input, output: Path, iterations: int, show: Show, clock: Clock
) -> Finished:
    """Ranks the pages of a topic of links into `output`/ranks.csv."""
    began_ms = clock.monotonic_ms()
    prepare_folder(output)
    context = session.sparkContext
    counted = context.accumulator(0)

    def count(link: Link) -> Link:
        counted.add(1)
        return link

    with plain_errors():
        records = session.read.format("hutong").options(**source.options).load()
        ranks = page_rank(links_of(records).map(count), iterations)
        with job_group(context, "pagerank") as group, watched(context, show):
            rows = ranking(ranks)
        write_csv(output / RANKS, Rank._fields, rows)
        stages = stages_text(stages_of(context, group, shuffles(ranks)))
    write_text(output / LINEAGE, lineage_text(ranks))
    write_text(output / STAGES, stages)
    files = tuple(output / name for name in (RANKS, LINEAGE, STAGES))
    return Finished(counted.value, (clock.monotonic_ms() - began_ms) / 1000, files, stages)


def run_access_log(
    session: "SparkSession", source: Input, output: Path, once: bool, show: Show, clock: Clock
) -> Finished:
    """Counts a topic of log lines into `output`, until all that is there is read (`once`) or until interrupted.

    The checkpoint belongs to the topic, not to its name alone: one that was deleted and made again starts from nothing.
    """
    began_ms = clock.monotonic_ms()
    prepare_folder(output)
    checkpoint = output / CHECKPOINTS / f"{source.topic.name}-{source.topic.topic_id.hex()}"
    if (
        not checkpoint.exists()
    ):  # an existing one belongs to another topic; this topic may have nothing to replace it with
        _write_counts(output, [])
    with plain_errors(), nullcontext(threading.Event()) if once else as_event() as ended:
        queries = _start_access_log(session, source, output, checkpoint, once)
        record_count = _follow(queries, ended, show, clock)
    seconds = (clock.monotonic_ms() - began_ms) / 1000
    return Finished(record_count, seconds, (output / PER_HOUR, output / TOP_PATHS))


def explain_pagerank(session: "SparkSession") -> str:
    """Lineage and stages of two iterations over a graph of four pages."""
    with plain_errors():
        ranks = page_rank(links_of(_sample(session, SAMPLE)), 2)
        with job_group(session.sparkContext, "pagerank") as group:
            ranking(ranks)
        stages = stages_text(stages_of(session.sparkContext, group, shuffles(ranks)))
    return f"Lineage of the ranks after two iterations\n\n{lineage_text(ranks)}\n\nStages\n\n{stages}"


def explain_access_log(session: "SparkSession") -> str:
    """Plan and stages of the aggregation over a log of three lines."""
    with plain_errors():
        counts = access_log.statistics(access_log.parsed(_sample(session, access_log.SAMPLE)))
        plan = io.StringIO()
        with redirect_stdout(plan):
            counts.explain("formatted")
        with job_group(session.sparkContext, "access-log") as group:
            counts.collect()
        stages = stages_text(stages_of(session.sparkContext, group))
    return f"Plan of the aggregation\n\n{plan.getvalue().strip()}\n\nStages\n\n{stages}"


def _start_access_log(
    session: "SparkSession", source: Input, output: Path, checkpoint: Path, once: bool
) -> list["StreamingQuery"]:
    def write_results(counts: "DataFrame", _batch_id: int) -> None:
        _write_counts(output, counts.collect())

    lines = access_log.parsed(session.readStream.format("hutong").options(**source.options).load())
    statistics = access_log.statistics(lines).writeStream.outputMode("complete").foreachBatch(write_results)
    letters = (
        access_log.dead_letters(lines)
        .writeStream.format("hutong")
        .options(
            **{"kafka.bootstrap.servers": source.bootstrap, "topic": source.topic.name + access_log.DEAD_LETTERS_SUFFIX}
        )
    )
    queries = []
    for name, writer in (("statistics", statistics), ("dead-letters", letters)):
        triggered = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=TRIGGER)
        queries.append(triggered.queryName(name).option("checkpointLocation", str(checkpoint / name)).start())
    return queries


def _write_counts(output: Path, rows: list["Row"]) -> None:
    write_csv(output / PER_HOUR, access_log.HOUR_COLUMNS, access_log.per_hour(rows))
    write_csv(output / TOP_PATHS, access_log.PATH_COLUMNS, access_log.top_paths(rows))


def _follow(queries: list["StreamingQuery"], ended: threading.Event, show: Show, clock: Clock) -> int:
    """Wait for all queries to end, or for `ended`, then stop them. How many records the first one read."""
    began_ms = clock.monotonic_ms()
    rows_of_batch: dict[int, int] = {}
    try:
        while any(query.isActive for query in queries) and not ended.is_set():
            for query in queries:
                query.awaitTermination(REFRESH_S)  # raises what the query failed with
            _note_progress(queries[0], rows_of_batch)
            last = queries[0].lastProgress
            if last is not None:
                show(stream_line(last, sum(rows_of_batch.values()), (clock.monotonic_ms() - began_ms) / 1000))
    finally:
        for query in queries:
            query.stop()
    _note_progress(queries[0], rows_of_batch)
    return sum(rows_of_batch.values())


def _note_progress(query: "StreamingQuery", rows_of_batch: dict[int, int]) -> None:
    for progress in query.recentProgress:
        if progress["numInputRows"]:
            rows_of_batch[progress["batchId"]] = progress["numInputRows"]


def _sample(session: "SparkSession", lines: tuple[str, ...]) -> "DataFrame":
    rows = [(None, bytearray(line.encode()), "sample", 0, offset) for offset, line in enumerate(lines)]
    return session.createDataFrame(rows, "key binary, value binary, topic string, partition int, offset bigint")
