"""`hutong dump` and `hutong doctor`: look into the data folder of a node that is not running.

Strategy: the folder is locked as a node locks it, so that no node writes meanwhile. `hutong.journal.recover.inspect`
finds the problems, by the rules of recovery. Damage ends no listing: it is printed at its place, and the readable rest
follows. Topic names come from the catalogue in the same folder.

Knows nothing of formats on disk.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hutong.cli.nearest import did_you_mean
from hutong.cli.options import AsJson, Yes, topic_name
from hutong.cli.output import print_rows, progress, remark, text_or_base64, utc
from hutong.foundation.errors import ExitCode, HutongError, LimitExceeded, ProtocolError, UsageError

if TYPE_CHECKING:
    from hutong.journal.recover.inspect import Inspector, JournalProblem
    from hutong.journal.recover.scan import ScannedChunk, ScannedRun
    from hutong.wire.kafka.batch.records import Record

CATALOGUE_GROUP = "metadata"
ANY_GROUP = ""  # of the logs of topics, in names
CATALOGUE_KEY = b"topic/"
_OWN_TOPICS = {
    CATALOGUE_GROUP: "__hutong_metadata",
    "offsets": "__consumer_offsets",
    "share": "__share_group_state",
    "transactions": "__transaction_state",
}
RUN_COLUMNS = ("group", "position", "time", "log", "kind", "base_offset", "offsets", "batches", "bytes")
FILE_COLUMNS = ("group", "name", "kind", "bytes", "content")
KINDS = {0: "batches", 1: "start moved", 2: "deleted", 3: "lost"}
ROWS_MAX = 1000
ROUNDS_MAX = 8

DataFolder = Annotated[
    Path | None, typer.Argument(metavar="DIR", help="The data folder of a node.", show_default=False)
]
DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="The same, spelled as for `hutong serve`.")
]
Names = dict[tuple[str, int], str]


def dump(
    folder: DataFolder = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", "-t", metavar="TOPIC", parser=topic_name, help="Only what belongs to this topic."),
    ] = None,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Only this partition group.")] = None,
    runs: Annotated[bool, typer.Option("--runs", help="Print the runs of batches in the journals.")] = False,
    records: Annotated[bool, typer.Option("--records", "-r", help="Print records as JSON, one a line.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="At most so many rows; 0: all.")] = ROWS_MAX,
    data_dir: DataDirOption = None,
    as_json: AsJson = False,
) -> int:
    """Print what is in which file of a stopped node: the files themselves, runs of batches, or records.

    Ends with 65 when something in the journals that were read is damaged.
    """
    with _locked(_one_folder(folder, data_dir)) as groups:
        wanted = {name: inspector for name, inspector in groups.items() if group in (None, name)}
        # A misspelt group would look like an empty one.
        if not wanted:
            raise UsageError(f"There is no group {group}; there are {', '.join(groups)}.", ExitCode.NOINPUT)
        damage = _Damage()
        rows: Iterator[dict[str, Any]]
        # A topic alone means its runs: files hold the records of many topics.
        if records or runs or topic is not None:
            names = _names(groups)
            # A misspelt topic would look like an empty one. Without any name the catalogue may be what is damaged.
            known = {name.rpartition("/")[0] for name in names.values()}
            if topic is not None and known and topic not in known:
                near = did_you_mean(topic, sorted(known)) or "."
                raise UsageError(f"There is no topic {topic} in this folder{near}", ExitCode.NOINPUT)
            found = _runs(wanted, names, topic, damage)
            rows = (row for run in found for row in _record_rows(run, damage)) if records else map(_run_row, found)
        else:
            rows = _file_rows(wanted)
        bounded = _Bounded(rows, limit)
        # Records differ in shape, so they are always JSON.
        columns = () if records else RUN_COLUMNS if runs or topic else FILE_COLUMNS
        print_rows(bounded, columns, as_json=as_json or records)
        # Known only after the rows are printed: nothing counts them before.
        if bounded.is_cut:
            remark(f"There is more; --limit {limit} ended it (0 prints everything).")
    # Scripts see damage even if the rows were cut at the limit.
    return ExitCode.DATAERR if damage.places else 0


def doctor(
    folder: DataFolder = None,
    repair: Annotated[bool, typer.Option("--repair", help="Apply the remedies that are named.")] = False,
    yes: Yes = False,
    data_dir: DataDirOption = None,
    as_json: AsJson = False,
) -> int:
    """Check every byte of a stopped node's journals; ends with 65 when something is (still) wrong.

    Without --repair nothing is changed: it shows what a repair would do and what that would lose.
    """
    from hutong.cli.kafka.topic import confirm

    folder = _one_folder(folder, data_dir)
    with _locked(folder) as groups:
        problems, rows = _examine(groups)
        print_rows(rows, ("group", "segments", "bytes", "problems"), as_json=as_json)
        # Reading the catalogue takes a pass over its journal, and only sentences need names.
        names = _names(groups) if problems else {}
        for group, problem in problems:
            remark(_sentence(problem, group, names))
        if not problems:
            remark("Nothing is wrong.")
            return 0
        # Shown first, since a remedy may give up records for good.
        if not repair:
            remark(f"Nothing was changed; `hutong doctor {folder} --repair` applies the remedies.")
            return ExitCode.DATAERR
        confirm(f"Apply {len(problems)} remedies?", yes=yes)
        return _repair(groups, problems)


def _one_folder(folder: Path | None, data_dir: Path | None) -> Path:
    """The folder that was named in either way. Raises UsageError for none, and for two."""
    if folder is not None and data_dir is not None:
        raise UsageError("The data folder is named twice; leave out --data-dir or DIR.")
    named = folder or data_dir
    if named is None:
        raise UsageError("Which data folder? Write DIR, as in `hutong doctor ./data`.")
    return named


def _examine(groups: "dict[str, Inspector]") -> "tuple[list[tuple[str, JournalProblem]], list[dict[str, Any]]]":
    from hutong.journal.recover.stored_records import find_false_batches

    problems: list[tuple[str, JournalProblem]] = []
    rows = []
    for name, inspector in groups.items():
        # Every byte is read, so a large journal takes a while.
        with progress(f"checking {name}"):
            # Structure first, then the records inside batches whose CRC holds.
            found = inspector.problems() + find_false_batches(inspector)
        problems += [(name, problem) for problem in found]
        rows.append(_health_row(name, inspector, found))
    return problems, rows


def _repair(groups: "dict[str, Inspector]", problems: "list[tuple[str, JournalProblem]]") -> int:
    """Apply remedies until nothing is wrong or nothing more can be done: one repair may bring to light another."""
    from hutong.journal.recover.inspect import WITHOUT_REPAIR
    from hutong.journal.recover.repair import repair

    for _ in range(ROUNDS_MAX):
        # Some remedies need a person: a missing file must be restored, a false batch read past.
        curable = [(group, problem) for group, problem in problems if problem.remedy not in WITHOUT_REPAIR]
        for group, problem in curable:
            remark(repair(groups[group], problem))
        problems, _rows = _examine(groups)
        if not problems:
            remark("Nothing is wrong any more.")
            return 0
        # Another round would find the same.
        if not curable:
            break
    for _group, problem in problems:
        remark(f"Still wrong: {problem}")
    return ExitCode.DATAERR


def _sentence(problem: "JournalProblem", group: str, names: Names) -> str:
    """The problem, and the offsets that its remedy would lose, or that readers must pass."""
    from hutong.journal.recover.inspect import Remedy

    lost = [
        f"{_log_name(names, group, entry.partition_id)} offsets {entry.first_offset} to {entry.end_offset - 1}"
        for entry in problem.lost
    ]
    # Nothing is deleted: consumers must skip these offsets.
    if problem.remedy is Remedy.READ_PAST and lost:
        return f"{problem} The batch has {lost[0]}."
    # No other remedy loses records.
    if problem.remedy is not Remedy.GIVE_UP:
        return str(problem)
    return f"{problem} Lost at most: {', '.join(lost) or 'nothing that a log still has a place for'}."


class _Damage:
    """Damage found while listing; each place is printed once."""

    def __init__(self) -> None:
        self.places: set[str] = set()

    def report(self, problem: "JournalProblem") -> None:
        self._print_once(f"{problem.path} at position {problem.position}", problem.sentence)

    def report_batch(self, log: str, base_offset: int, error: HutongError) -> None:
        """A batch whose CRC holds and whose records cannot be read, stored before they were checked."""
        self._print_once(f"the batch of {log} at offset {base_offset}", str(error))

    def _print_once(self, place: str, sentence: str) -> None:
        if place not in self.places:
            self.places.add(place)
            remark(f"{place}: {sentence}; the rest follows where it can be read.")


class _Bounded:
    """The first `limit` rows, all of them for 0."""

    def __init__(self, rows: Iterator[dict[str, Any]], limit: int) -> None:
        self.is_cut = False
        self._rows = rows
        self._limit = limit

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number, row in enumerate(self._rows):
            # There is a row after the limit, so a remark must follow.
            if self._limit and number >= self._limit:
                self.is_cut = True
                return
            yield row


class _FoundRun:
    """A run with its chunk and the bytes of its batches."""

    def __init__(self, group: str, log: str, chunk: "ScannedChunk", run: "ScannedRun", data: bytes) -> None:
        self.group, self.log, self.chunk, self.run, self.data = group, log, chunk, run, data


@contextmanager
def _locked(folder: Path) -> Iterator["dict[str, Inspector]"]:
    """Partition group → inspector of its journal. Raises UsageError where this is no data folder, or in use."""
    from hutong.journal.files.disk import RealDisk
    from hutong.journal.recover.inspect import Inspector
    from hutong.server.broker.data.data_dir import DataDir

    # Checked first, since taking the lock makes a folder that is missing.
    if not (folder / "groups").is_dir():
        raise UsageError(f"{folder} is no data folder of a node.", ExitCode.NOINPUT)
    try:
        # The node's own lock: a repair must not run next to a node.
        lock = DataDir(folder, os.urandom)
    except UsageError as error:
        # TEMPFAIL means that the lock is held; other errors have a sentence that fits.
        if error.exit_code != ExitCode.TEMPFAIL:
            raise
        raise UsageError(f"A node is running on {folder}; stop it first.", ExitCode.TEMPFAIL) from None
    try:
        names = sorted(path.name for path in (folder / "groups").iterdir() if path.is_dir())
        yield {name: Inspector(RealDisk(), lock.group_path(name)) for name in names}
    finally:
        lock.close()


def _runs(
    groups: "dict[str, Inspector]", names: Names, topic: str | None, damage: _Damage | None
) -> Iterator[_FoundRun]:
    from hutong.journal.recover.inspect import JournalProblem

    for group, inspector in groups.items():
        for segment, part in inspector.contents():
            # The inspector yields a problem in the place of a chunk that it cannot read.
            if isinstance(part, JournalProblem):
                if damage is not None:
                    damage.report(part)
                continue
            for run in part.runs:
                log = _log_name(names, group, run.run.partition_id)
                # The name of a log is TOPIC/PARTITION.
                if topic is None or log.rpartition("/")[0] == topic:
                    # Opened for each run: a listing may stop early, and a generator must not keep files open.
                    with segment.path.open("rb") as file:
                        file.seek(run.run.position - segment.base_position)
                        yield _FoundRun(group, log, part, run, file.read(run.run.bytes))


def _log_name(names: Names, group: str, partition_id: int) -> str:
    return names.get((group, partition_id)) or names.get((ANY_GROUP, partition_id), f"log {partition_id}")


def _file_rows(groups: "dict[str, Inspector]") -> Iterator[dict[str, Any]]:
    for group, inspector in groups.items():
        for row in inspector.files():
            yield {"group": group, **row._asdict()}


def _names(groups: "dict[str, Inspector]") -> Names:
    """(partition group, log id) → `topic/partition`, from the latest record of the catalogue on each topic.

    The id of a topic's log is unique in the cluster. In which group it is may change.
    """
    from hutong.broker.topics.lifetimes import lifetime_of

    topics: dict[bytes, bytes | None] = {}
    # Without the catalogue's group, logs are shown by their numbers.
    catalogue = {name: inspector for name, inspector in groups.items() if name == CATALOGUE_GROUP}
    for run in _runs(catalogue, {}, None, None):
        # The catalogue's last record of a topic counts, as in its replay.
        topics.update({record.key or b"": record.value for record in _records(run, None)})
    # Logs of the node itself are not in the catalogue. In a cluster a topic of coordinators has several groups.
    names = {
        (group, 0): f"{_OWN_TOPICS[lifetime_of(group)]}/{group.removeprefix(lifetime_of(group))[1:] or 0}"
        for group in groups
        if lifetime_of(group) in _OWN_TOPICS
    }
    for key, value in topics.items():
        # None is the tombstone of a deleted topic.
        # The catalogue has records of other kinds, too.
        if key.startswith(CATALOGUE_KEY) and value is not None:
            entry = json.loads(value)
            topic = key.removeprefix(CATALOGUE_KEY).decode()
            names |= {(ANY_GROUP, log): f"{topic}/{index}" for index, log in enumerate(entry["partitions"])}
    return names


def _records(found: _FoundRun, damage: _Damage | None) -> "Iterator[Record]":
    """Raises ProtocolError, LimitExceeded for records that cannot be read, unless `damage` is there to report them."""
    from hutong.journal.format.chunk import BATCHES
    from hutong.wire.kafka.batch.records import iterate_batches, iterate_records

    if found.run.run.kind != BATCHES:  # a statement, or a run that was given up
        return
    for header, batch in iterate_batches(memoryview(found.data)):
        try:
            yield from iterate_records(batch)
        except (ProtocolError, LimitExceeded) as error:
            # For names: a record that is skipped could be the deletion of a topic.
            if damage is None:
                raise
            damage.report_batch(found.log, header.base_offset, error)


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


def _record_rows(found: _FoundRun, damage: _Damage) -> Iterator[dict[str, Any]]:
    for record in _records(found, damage):
        yield {
            "log": found.log,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
            "key": text_or_base64(record.key),
            "value": text_or_base64(record.value),
            "headers": [[name, text_or_base64(value)] for name, value in record.headers],
        }


def _health_row(name: str, inspector: "Inspector", problems: "list[JournalProblem]") -> dict[str, Any]:
    segments = inspector.segments()
    return {
        "group": name,
        "segments": len(segments),
        "bytes": sum(segment.file_bytes for segment in segments),
        "problems": len(problems),
    }
