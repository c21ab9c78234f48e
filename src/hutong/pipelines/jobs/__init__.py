"""The library of jobs, each one a file: what it reads, what Spark does with it, what it leaves.

`JOBS` is the registry; it imports no Spark, so that listing works everywhere. A new job adds its `JOB` to the tuple.
"""

from hutong.pipelines.jobs import (
    access_log,
    archive,
    compaction,
    join,
    lookup,
    pagerank,
    replay,
    sessions,
    windows,
)
from hutong.pipelines.jobs.job import Job

JOBS: dict[str, Job] = {
    job.name: job
    for job in (
        access_log.JOB,
        archive.JOB,
        compaction.JOB,
        join.JOB,
        lookup.JOB,
        pagerank.JOB,
        replay.JOB,
        sessions.JOB,
        windows.JOB,
    )
}
