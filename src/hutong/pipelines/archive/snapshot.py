"""The set of files that an archive consists of, as one value, and its changes. Pure.

A snapshot is written as one version of the log that Spark's own file sink keeps (`_spark_metadata/N.compact`: a line
`v1`, then a line of JSON for each file), so that `spark.read.parquet(FOLDER)` of any Spark reads the latest version and
nothing else. Facts without a place in that form are in the first entry, which describes the folder itself: readers skip
folders and unknown fields. Files that a compaction replaced stay in the list `removed` for the grace period, so that
earlier readers can finish.

Knows nothing of disks, Spark, or the contents of files.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from hutong.foundation.errors import CorruptData, UnknownFormat

LOG_VERSION = "v1"
FORMAT = 1
WRITERS_MAX = 1000
"""The number of queries remembered with their last batch; the least recent writer is dropped first."""
BLOCK_BYTES = 128 * 2**20
"""Required by the form; on a local disk it only bounds the size of Spark's tasks."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file. `path` is relative to the archive, such as `date=2015-05-17/NAME.parquet`."""

    path: str
    size_bytes: int
    row_count: int
    modified_ms: int

    @property
    def partition(self) -> str:
        """The file's folder: rows of one date."""
        return str(PurePosixPath(self.path).parent)


@dataclass(frozen=True, slots=True)
class Removed:
    """A file that no longer counts, and since when."""

    path: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class BatchOf:
    """A micro-batch of a streaming query. Spark gives a batch that it runs again the same number and the same rows."""

    query: str
    number: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    files: tuple[DataFile, ...] = ()
    removed: tuple[Removed, ...] = ()
    writers: Mapping[str, int] = field(default_factory=dict)
    """The last batch of each query, the most recent writer last."""

    @property
    def row_count(self) -> int:
        return sum(file.row_count for file in self.files)

    def holds(self, batch: BatchOf) -> bool:
        """Return True if this batch has been added before."""
        return self.writers.get(batch.query, -1) >= batch.number

    def check_invariants(self) -> None:
        paths = [file.path for file in self.files] + [file.path for file in self.removed]
        assert len(set(paths)) == len(paths), "a file is listed twice"
        assert len(self.writers) <= WRITERS_MAX, "more writers are remembered than WRITERS_MAX"


def with_batch(snapshot: Snapshot, files: Iterable[DataFile], batch: BatchOf | None) -> Snapshot | None:
    """`files` added; None when their batch is there already."""
    if batch is None:
        return replace(snapshot, files=(*snapshot.files, *files))
    if snapshot.holds(batch):
        return None
    writers = {query: number for query, number in snapshot.writers.items() if query != batch.query}
    writers[batch.query] = batch.number
    kept = dict(list(writers.items())[-WRITERS_MAX:])
    return replace(snapshot, files=(*snapshot.files, *files), writers=kept)


def with_replaced(snapshot: Snapshot, old: Iterable[DataFile], new: Iterable[DataFile], now_ms: int) -> Snapshot | None:
    """`new` in the place of `old`; None when someone else has replaced one of `old` meanwhile."""
    going = {file.path for file in old}
    if not going <= {file.path for file in snapshot.files}:
        return None
    kept = tuple(file for file in snapshot.files if file.path not in going)
    gone = tuple(Removed(path, now_ms) for path in sorted(going))
    return replace(snapshot, files=(*kept, *new), removed=(*snapshot.removed, *gone))


def without_removed(snapshot: Snapshot, paths: Iterable[str]) -> Snapshot | None:
    """Forgets removed files that have been deleted; None when there are none of them."""
    deleted = set(paths)
    kept = tuple(file for file in snapshot.removed if file.path not in deleted)
    return None if len(kept) == len(snapshot.removed) else replace(snapshot, removed=kept)


def small_files(snapshot: Snapshot, target_bytes: int, files_min: int) -> list[tuple[DataFile, ...]]:
    """Groups of files to be made one each: of one partition, together at most `target_bytes`.

    A file that has half the target is left alone, and so is a group of fewer than `files_min` files: what was compacted
    once is not rewritten for every few rows that come late.
    """
    groups: list[tuple[DataFile, ...]] = []
    by_partition: dict[str, list[DataFile]] = {}
    for file in snapshot.files:
        if file.size_bytes * 2 < target_bytes:
            by_partition.setdefault(file.partition, []).append(file)
    for _, files in sorted(by_partition.items()):
        groups += [group for group in _packed(files, target_bytes) if len(group) >= max(2, files_min)]
    return groups


def _packed(files: Iterable[DataFile], target_bytes: int) -> list[tuple[DataFile, ...]]:
    """In the order in which they were added, so that what belongs together stays together."""
    groups: list[list[DataFile]] = [[]]
    size = 0
    for file in files:
        if groups[-1] and size + file.size_bytes > target_bytes:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size_bytes
    return [tuple(group) for group in groups]


def encode(snapshot: Snapshot, root_uri: str, now_ms: int) -> str:
    """A version of the log. `root_uri` is the archive's folder as a file: URI without a slash at its end."""
    own = {
        "hutong": FORMAT,
        "writers": dict(snapshot.writers),
        "removed": [[file.path, file.at_ms] for file in snapshot.removed],
    }
    lines = [LOG_VERSION, _entry(root_uri, 0, True, now_ms, own)]
    lines += [
        _entry(f"{root_uri}/{quote(file.path, safe='/=')}", file.size_bytes, False, file.modified_ms, _fields_of(file))
        for file in snapshot.files
    ]
    return "\n".join(lines)


def decode(text: str, where: str) -> Snapshot:
    """Raises UnknownFormat for a log that others wrote, CorruptData for one that is damaged; `where` names it."""
    version, *lines = text.split("\n")
    if version != LOG_VERSION:
        raise UnknownFormat(f"{where} does not begin with {LOG_VERSION}: it is no version of an archive's log")
    try:
        first, *rest = [json.loads(line) for line in lines if line]
        if not isinstance(first, dict) or first.get("hutong") != FORMAT:
            raise UnknownFormat(f"{where} was not written by hutong: give the archive a folder of its own")
        return Snapshot(
            tuple(DataFile(_inside(one["file"]), one["size"], one["rows"], one["modificationTime"]) for one in rest),
            tuple(Removed(_inside(path), at_ms) for path, at_ms in first["removed"]),
            first["writers"],
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptData(f"{where} is damaged ({error}): delete it to go back to the version before") from error


def _inside(path: str) -> str:
    """The path of a data file. Raises ValueError for one outside the archive: files that a log names are deleted."""
    parts = PurePosixPath(path)
    if not isinstance(path, str) or parts.is_absolute() or ".." in parts.parts or "\0" in path or not parts.name:
        raise ValueError(f"it names {path!r}, which is not inside the archive")
    return path


def _fields_of(file: DataFile) -> dict[str, Any]:
    return {"file": file.path, "rows": file.row_count}


def _entry(uri: str, size_bytes: int, is_folder: bool, modified_ms: int, own: Mapping[str, Any]) -> str:
    entry = {
        "path": uri,
        "size": size_bytes,
        "isDir": is_folder,
        "modificationTime": modified_ms,
        "blockReplication": 1,
        "blockSize": BLOCK_BYTES,
        "action": "add",
    }
    return json.dumps(entry | dict(own), separators=(",", ":"))
