"""Makes few large files of an archive's many small ones, while it is written to and read.

Small files of one date become one, in the order of topic, partition and offset. The new file takes the place of the old
ones in one step of the archive's log; the old ones stay on disk until readers that began before have had their time.
Killed anywhere it leaves the archive as it was before a group of files or after it, and the leftovers to the next run.
A second run finds nothing to do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hutong.foundation.clock import Clock, SystemClock
from hutong.foundation.errors import CorruptData
from hutong.pipelines.archive.folder import ArchiveFolder
from hutong.pipelines.archive.snapshot import DataFile, small_files, with_replaced
from hutong.pipelines.jobs.archive import DATE, ORDER, open_archive
from hutong.pipelines.jobs.job import Job, JobParameter, Work
from hutong.pipelines.jobs.parameters import MIB, MINUTE_MS, needed, resolved_path, whole_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOB = Job(
    name="compaction",
    kind="batch",
    summary="Makes few large files of an archive's many small ones, while it is written to and read.",
    reads="an archive that the job archive writes; no source",
    outputs=(("PATH/date=.../", "the same rows in fewer files"),),
    parameters=(
        JobParameter("path", None, "the archive's folder"),
        JobParameter("target_mib", "128", "how large files become; those of half that size are left alone"),
        JobParameter("files_min", "2", "how many small files of a date are worth making one of them"),
        JobParameter("grace_minutes", "60", "how long replaced files stay for readers that began before"),
    ),
    template="""\
@PIPELINE@
trigger = "batch"

[transform]
job = "compaction"
parameters = { path = "archive" }
""",
)
TARGET_BYTES = 128 * MIB
FILES_MIN = 2
GRACE_MS = 60 * MINUTE_MS


@dataclass(frozen=True, slots=True)
class Compacted:
    """Results of a run."""

    old_count: int
    new_count: int
    deleted_count: int


def run(work: Work) -> str:
    """Compacts the archive once, or less of it when it is stopped."""
    parameters = work.parameters
    archive = open_archive(resolved_path(work.pipeline.folder, needed(parameters, "path", JOB.name)))
    done = compact(
        work.session,
        archive,
        SystemClock(),
        target_bytes=whole_number(parameters, "target_mib", 1) * MIB,
        files_min=whole_number(parameters, "files_min", 2),
        grace_ms=whole_number(parameters, "grace_minutes") * MINUTE_MS,
        go_on=lambda: not work.stop.is_set(),
    )
    deleted = f"{done.deleted_count:,} that no longer count were deleted"
    return f"{done.old_count:,} files became {done.new_count:,}; {deleted}"


def compact(
    session: "SparkSession",
    archive: ArchiveFolder,
    clock: Clock,
    *,
    target_bytes: int = TARGET_BYTES,
    files_min: int = FILES_MIN,
    grace_ms: int = GRACE_MS,
    go_on: Callable[[], bool] = lambda: True,
) -> Compacted:
    """Compact everything, or until `go_on` returns False, and delete files unused for `grace_ms`."""
    old_count = new_count = 0
    for group in small_files(archive.latest().snapshot, target_bytes, files_min):
        if not go_on():
            break
        made = compact_group(session, archive, clock, group)
        old_count += len(group) if made else 0
        new_count += made
    return Compacted(old_count, new_count, archive.vacuum(grace_ms))


def compact_group(session: "SparkSession", archive: ArchiveFolder, clock: Clock, group: tuple[DataFile, ...]) -> int:
    """Make one file of a group. How many were made: none where another compaction was faster."""
    staged = archive.staging()
    _joined(session, archive, group).write.parquet(str(staged / group[0].partition))
    files = archive.adopt(staged)
    rows_before, rows_now = (sum(file.row_count for file in some) for some in (group, files))
    if rows_before != rows_now:
        raise CorruptData(f"{group[0].path} and its neighbours hold {rows_now} rows where {rows_before} were written")
    done = archive.commit(lambda snapshot: with_replaced(snapshot, group, files, clock.wall_ms()))
    return len(files) if done is not None else 0


def _joined(session: "SparkSession", archive: ArchiveFolder, group: tuple[DataFile, ...]) -> "DataFrame":
    """The rows of a group in one Spark partition, so that one file comes of it."""
    rows = session.read.option("mergeSchema", "true").parquet(*(str(archive.path / file.path) for file in group))
    order = [name for name in ORDER if name in rows.columns]
    joined = rows.drop(DATE).coalesce(1)
    return joined.sortWithinPartitions(*order) if order else joined
