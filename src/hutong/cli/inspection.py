"""`hutong dump` and `hutong doctor`: look into the data folder of a node that is not running.

Strategy: the folder is locked as a node locks it, so that nobody writes while it is looked at; what is found is told by
`hutong.journal.inspect`, which believes what recovery believes. Logs are named after their topics by reading the
catalogue out of the same folder.

Knows nothing of formats on disk.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hutong.cli.options import AsJson, Yes
from hutong.cli.output import print_rows, progress, remark, text_or_base64, utc
from hutong.foundation.errors import UsageError

if TYPE_CHECKING:
    from hutong.journal.inspect import Inspector, Problem
    from hutong.journal.scan import ScannedChunk, ScannedRun
    from hutong.wire.kafka.records import Record

CATALOGUE_GROUP = "metadata"
CATALOGUE_KEY = b"topic/"
EXIT_DATA = 65
EXIT_NO_INPUT = 66
EXIT_TEMPORARY = 75
RUN_COLUMNS = ("group", "position", "time", "log", "kind", "base_offset", "offsets", "batches", "bytes")
KINDS = {0: "batches", 1: "start moved", 2: "deleted"}

DataFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The data folder of a node.", show_default=False)]
Names = dict[tuple[str, int], str]


def dump(
    folder: DataFolder,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Only what belongs to this topic.")] = None,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Only this partition group.")] = None,
    records: Annotated[bool, typer.Option("--records", "-r", help="Print records as JSON, one a line.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print what lies in a stopped node's journals: runs of batches, or the records in them."""
    with _locked(folder) as groups:
        names = _names(groups)
        wanted = {name: inspector for name, inspector in groups.items() if group in (None, name)}
        if not wanted:
            raise UsageError(f"There is no group {group}; there are {', '.join(groups)}.", EXIT_NO_INPUT)
        found = _runs(wanted, names, topic)
        if records:
            print_rows((row for run in found for row in _record_rows(run)), (), as_json=True)
        else:
            print_rows((_run_row(run) for run in found), RUN_COLUMNS, as_json=as_json)


def doctor(
    folder: DataFolder,
    repair: Annotated[bool, typer.Option("--repair", help="Apply the remedies that are named.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """Check every byte of a stopped node's journals; ends with 65 when something is wrong."""
    from hutong.cli.topic import confirm

    with _locked(folder) as groups:
        problems: list[tuple[Inspector, Problem]] = []
        rows = []
        for name, inspector in groups.items():
            with progress(f"checking {name}"):
                found = inspector.problems()
            problems += [(inspector, problem) for problem in found]
            rows.append(_health_row(name, inspector, found))
        print_rows(rows, ("group", "segments", "bytes", "problems"), as_json=as_json)
        for _, problem in problems:
            remark(str(problem))
        if not problems:
            remark("Nothing is wrong.")
            return 0
        if not repair:
            return EXIT_DATA
        confirm(f"Apply {len(problems)} remedies?", yes=yes)
        for inspector, problem in problems:
            remark(inspector.repair(problem))
    return 0


class _FoundRun:
    """A run with its chunk and the file it lies in."""

    def __init__(self, group: str, log: str, chunk: "ScannedChunk", run: "ScannedRun", data: bytes) -> None:
        self.group, self.log, self.chunk, self.run, self.data = group, log, chunk, run, data


@contextmanager
def _locked(folder: Path) -> Iterator["dict[str, Inspector]"]:
    """Partition group → inspector of its journal. Raises UsageError where this is no data folder, or in use."""
    from hutong.journal.disk import RealDisk
    from hutong.journal.inspect import Inspector
    from hutong.server.data_dir import DataDir

    if not (folder / "groups").is_dir():
        raise UsageError(f"{folder} is no data folder of a node.", EXIT_NO_INPUT)
    try:
        lock = DataDir(folder, os.urandom)
    except UsageError as error:
        if error.exit_code != EXIT_TEMPORARY:
            raise
        raise UsageError(f"A node is running on {folder}; stop it first.", EXIT_TEMPORARY) from None
    try:
        names = sorted(path.name for path in (folder / "groups").iterdir() if path.is_dir())
        yield {name: Inspector(RealDisk(), lock.group_path(name)) for name in names}
    finally:
        lock.close()


def _runs(groups: "dict[str, Inspector]", names: Names, topic: str | None) -> Iterator[_FoundRun]:
    for group, inspector in groups.items():
        for segment in inspector.segments():
            with segment.path.open("rb") as file:
                for chunk in inspector.chunks(segment):
                    for run in chunk.runs:
                        log = names.get((group, run.run.partition_id), f"log {run.run.partition_id}")
                        if topic is None or log.rpartition("/")[0] == topic:
                            file.seek(run.run.position - segment.base_position)
                            yield _FoundRun(group, log, chunk, run, file.read(run.run.bytes))


def _names(groups: "dict[str, Inspector]") -> Names:
    """(partition group, log id) → `topic/partition`, from the last word of the catalogue on each topic."""
    topics: dict[bytes, bytes | None] = {}
    catalogue = {name: inspector for name, inspector in groups.items() if name == CATALOGUE_GROUP}
    for run in _runs(catalogue, {}, None):
        topics.update({record.key or b"": record.value for record in _records(run)})
    names = {(CATALOGUE_GROUP, 0): "__hutong_metadata/0", ("offsets", 0): "__consumer_offsets/0"}
    for key, value in topics.items():
        if key.startswith(CATALOGUE_KEY) and value is not None:
            entry = json.loads(value)
            topic = key.removeprefix(CATALOGUE_KEY).decode()
            names |= {(entry["group"], log): f"{topic}/{index}" for index, log in enumerate(entry["partitions"])}
    return names


def _records(found: _FoundRun) -> "Iterator[Record]":
    from hutong.wire.kafka.records import iterate_batches, iterate_records

    for _, batch in iterate_batches(memoryview(found.data)):
        yield from iterate_records(batch)


def _run_row(found: _FoundRun) -> dict[str, Any]:
    run = found.run.run
    return {
        "group": found.group,
        "position": run.position,
        "time": utc(found.chunk.header.append_time_ms),
        "log": found.log,
        "kind": KINDS.get(run.kind, str(run.kind)),
        "base_offset": run.base_offset,
        "offsets": run.offset_count,
        "batches": run.batch_count,
        "bytes": run.bytes,
    }


def _record_rows(found: _FoundRun) -> Iterator[dict[str, Any]]:
    for record in _records(found):
        yield {
            "log": found.log,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
            "key": text_or_base64(record.key),
            "value": text_or_base64(record.value),
            "headers": [[name, text_or_base64(value)] for name, value in record.headers],
        }


def _health_row(name: str, inspector: "Inspector", problems: "list[Problem]") -> dict[str, Any]:
    segments = inspector.segments()
    return {
        "group": name,
        "segments": len(segments),
        "bytes": sum(segment.file_bytes for segment in segments),
        "problems": len(problems),
    }
