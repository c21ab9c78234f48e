"""The stages that Spark made of a job, as text: what ran, in which order, and what was shuffled between.

Figures come from Spark's REST API on the driver (`/api/v1`). It does not tell which stage waits for which, so for an
RDD that is found as Spark itself finds it: a stage is cut wherever an RDD depends on another by a shuffle.
"""

import json
import re
import urllib.request
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.rdd import RDD

TIMEOUT_S = 60
ATTEMPTS_MAX = 3  # Spark's server drops a connection after 30 s, and the first answer of a busy driver may take longer
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage, from the REST API or an event log. `waits_for` are the stages whose shuffled output it reads.

    Only some sources know the fields below `waits_for`; times are Unix milliseconds.
    """

    stage_id: int
    name: str
    status: str
    task_count: int
    run_time_ms: int
    shuffle_read_bytes: int
    shuffle_write_bytes: int
    rdd_ids: frozenset[int]
    waits_for: tuple[int, ...] = ()
    operators: tuple[str, ...] = ()
    """Spark SQL's operators in it, in the order of the data."""
    submitted_ms: int | None = None
    ended_ms: int | None = None
    longest_task_ms: int = 0
    failed_task_count: int = 0
    input_row_count: int = 0
    spilled_bytes: int = 0


@contextmanager
def job_group(context: "SparkContext", name: str) -> Iterator[str]:
    """Marks the jobs started in the block, so that `stages_of` finds theirs alone; yields the group."""
    group = f"{name}-{uuid.uuid4()}"
    context.setJobGroup(group, name)
    try:
        yield group
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def stages_of(context: "SparkContext", group: str, lineage: Mapping[int, set[int]] | None = None) -> list[Stage]:
    """The stages that the jobs of a group ran or skipped, oldest first.

    `lineage` is the result of `shuffles` for the computed RDD.
    """
    mine = {stage_id for job in _get(context, "/jobs") if job.get("jobGroup") == group for stage_id in job["stageIds"]}
    reported = [stage_of_entry(entry) for entry in _get(context, "/stages") if entry["stageId"] in mine]
    makers = {max(stage.rdd_ids): stage.stage_id for stage in reported if stage.status != "SKIPPED"}
    stages = [_waiting(stage, lineage or {}, makers) for stage in reported]
    return sorted(stages, key=lambda stage: stage.stage_id)


def shuffles(rdd: "RDD[Any]") -> dict[int, set[int]]:
    """For each RDD of a lineage that reads a shuffle: the RDDs whose output is shuffled for it, by id."""
    found: dict[int, set[int]] = {}
    seen: set[int] = set()
    open_ends = [rdd._jrdd.rdd()]  # there is no public way to an RDD's dependencies from Python
    while open_ends:
        node = open_ends.pop()
        if node.id() in seen:
            continue
        seen.add(node.id())
        dependencies = node.dependencies()
        for index in range(dependencies.size()):
            dependency = dependencies.apply(index)
            if dependency.getClass().getSimpleName() == "ShuffleDependency":
                found.setdefault(node.id(), set()).add(dependency.rdd().id())
            open_ends.append(dependency.rdd())
    return found


def lineage_text(rdd: "RDD[Any]") -> str:
    """Spark's own picture of an RDD's lineage, without folders in the places of code."""
    text = rdd.toDebugString()
    return short_name(text.decode() if text else "")


def stages_text(stages: Iterable[Stage]) -> str:
    """One line per stage; `◀ 0, 1` names the stages whose output it reads."""
    lines = ["stage  tasks   seconds   shuffle in  shuffle out  what"]
    for stage in stages:
        read, written = size(stage.shuffle_read_bytes), size(stage.shuffle_write_bytes)
        waits = f"  ◀ {', '.join(map(str, stage.waits_for))}" if stage.waits_for else ""
        skipped = "  (skipped: kept from before)" if stage.status == "SKIPPED" else ""
        figures = f"{stage.stage_id:>5}  {stage.task_count:>5}  {stage.run_time_ms / 1000:>8.2f}"
        lines.append(f"{figures}  {read:>11}  {written:>11}  {stage.name}{waits}{skipped}")
    return "\n".join(lines)


def _get(context: "SparkContext", path: str) -> Any:
    url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}{path}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the driver is never behind a proxy
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            with opener.open(url, timeout=TIMEOUT_S) as response:
                return json.load(response)
        except ConnectionError:
            if attempt == ATTEMPTS_MAX:
                raise
    raise AssertionError("the last attempt returns or raises")


def stage_of_entry(entry: Mapping[str, Any]) -> Stage:
    """A stage from one entry of the API's list."""
    return Stage(
        stage_id=entry["stageId"],
        name=short_name(entry["name"]),
        status=entry["status"],
        task_count=entry["numTasks"],
        run_time_ms=entry["executorRunTime"],
        shuffle_read_bytes=entry["shuffleReadBytes"],
        shuffle_write_bytes=entry["shuffleWriteBytes"],
        rdd_ids=frozenset(entry["rddIds"]),
        failed_task_count=entry.get("numFailedTasks", 0),
        input_row_count=entry.get("inputRecords", 0),
        spilled_bytes=entry.get("diskBytesSpilled", 0),
    )


def _waiting(stage: Stage, lineage: Mapping[int, set[int]], makers: Mapping[int, int]) -> Stage:
    shuffled = {parent for rdd_id in stage.rdd_ids for parent in lineage.get(rdd_id, ())}
    waits_for = sorted({makers[parent] for parent in shuffled if parent in makers} - {stage.stage_id})
    return replace(stage, waits_for=tuple(waits_for))


def short_name(text: str) -> str:
    """Without the folders before a file's name."""
    return re.sub(r"(?<= at )/\S*/", "", text)


def size(byte_count: float) -> str:
    """Bytes for people; a dash for none."""
    if not byte_count:
        return "-"
    for unit in UNITS:
        if byte_count < 1024 or unit == UNITS[-1]:
            return f"{byte_count:.0f} {unit}" if unit == "B" else f"{byte_count:.1f} {unit}"
        byte_count /= 1024
    raise AssertionError("the last unit returns")
