"""The library of jobs, each one a file: what it reads, what Spark does with it, what it leaves.

`JOBS` is the registry; it imports no Spark, so that listing works everywhere. A new job adds its `JOB` to the tuple.
"""

from hutong.pipelines.jobs import (
    access_log,
    archive,
    compaction,
    dead_letters,
    deduplication,
    join,
    lookup,
    pagerank,
    replay,
    replay_dead_letters,
    sessions,
    windows,
    word_count,
)
from hutong.pipelines.jobs.job import Job

JOBS: dict[str, Job] = {
    job.name: job
    for job in (
        access_log.JOB,
        archive.JOB,
        compaction.JOB,
        dead_letters.JOB,
        deduplication.JOB,
        join.JOB,
        lookup.JOB,
        pagerank.JOB,
        replay.JOB,
        replay_dead_letters.JOB,
        sessions.JOB,
        windows.JOB,
        word_count.JOB,
    )
}
