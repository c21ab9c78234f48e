"""The jobs that `hutong pipeline` runs, each one a file: what it reads, what Spark does with it, what it leaves.

This file describes them without importing Spark, so that listing them works everywhere.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobDescription:
    """What a person reads before running a job. `outputs` are files in the output folder, or topics."""

    name: str
    kind: str
    summary: str
    reads: str
    outputs: tuple[tuple[str, str], ...]


JOBS = {
    job.name: job
    for job in (
        JobDescription(
            name="access-log",
            kind="streaming, SQL",
            summary="Requests, bytes and status classes of a web server per hour, and its most wanted paths.",
            reads="one line of Apache's combined log format per record",
            outputs=(
                ("per-hour.csv", "hour_utc, requests, bytes, status_2xx, status_3xx, status_4xx, status_5xx"),
                ("top-paths.csv", "path, requests; most wanted first, equal ones by path"),
                ("TOPIC.dead-letters", "lines that cannot be read, unchanged; why and from where in headers"),
            ),
        ),
        JobDescription(
            name="pagerank",
            kind="batch, RDD",
            summary="Ranks pages by the links between them, as in Spark's own example.",
            reads="one link per record: source, a tab, target",
            outputs=(
                ("ranks.csv", "page, rank; highest first, equal ones by page"),
                ("lineage.txt", "the lineage of the ranks, as Spark prints it"),
                ("stages.txt", "the stages that were run and what they read of each other"),
            ),
        ),
    )
}
