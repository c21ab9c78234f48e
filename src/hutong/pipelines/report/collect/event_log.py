"""Event logs as Spark writes them: one file, or a folder of numbered parts; plain or packed; finished or cut off.

Strategy: read from front to end, a line at a time; the name of an event comes first in its line, so that unneeded
events are not parsed. Of a folder with several logs the newest is read.
"""

import json
import re
from pathlib import Path

from hutong.foundation.errors import ExitCode, UsageError
from hutong.pipelines.report.collect.events import EventReader
from hutong.pipelines.report.collect.lines import Reading, lines_of_file
from hutong.pipelines.report.model import SparkRun

NAME = re.compile(rb'\{"Event":"([^"\\]{1,200})"')
ROLLED_FOLDER = "eventlog_v2_"
PART = re.compile(r"events_(?P<number>\d+)_.*?(?P<compact>\.compact)?$")
PART_COUNT_MAX = 100_000


def read_event_log(path: Path, run: SparkRun) -> None:
    """Add the log's events to `run`. Raises UsageError when there is no log, or a file that is none."""
    reader, reading = EventReader(run), Reading()
    for part in parts_of(path):
        for line in lines_of_file(part, reading):
            _read_line(line, reader)
    reader.finish()
    if reading.line_count + reading.cut_off and not run.spark_version and reader.unreadable_count:
        raise UsageError(f"{path} is no event log of Spark: it has none of its events", ExitCode.DATAERR)
    _note(run, reader, reading)


def has_event_log(path: Path) -> bool:
    try:
        return bool(parts_of(path))
    except UsageError:
        return False


def parts_of(path: Path) -> list[Path]:
    """The files of a log in order. Raises UsageError when there are none."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UsageError(f"there is no event log at {path}", ExitCode.NOINPUT)
    if path.name.startswith(ROLLED_FOLDER):
        parts = _rolled(path)
    else:
        logs = [entry for entry in path.iterdir() if _is_log(entry)]
        parts = parts_of(max(logs, key=lambda entry: (entry.stat().st_mtime, entry.name))) if logs else []
    if not parts:
        raise UsageError(f"the folder {path} holds no event log of Spark", ExitCode.NOINPUT)
    return parts


def _is_log(entry: Path) -> bool:
    if entry.name.startswith((".", "_")):
        return False
    return entry.is_file() or entry.name.startswith(ROLLED_FOLDER)


def _rolled(folder: Path) -> list[Path]:
    """Parts by number. A compacted part replaces those before it."""
    found = [(match, entry) for entry in folder.iterdir() if (match := PART.match(entry.name))]
    compacted = max((int(match["number"]) for match, _ in found if match["compact"]), default=0)
    kept = [
        (int(match["number"]), entry)
        for match, entry in found
        if int(match["number"]) > compacted or (int(match["number"]) == compacted and match["compact"])
    ]
    return [entry for _, entry in sorted(kept)[:PART_COUNT_MAX]]


def _read_line(line: bytes, reader: EventReader) -> None:
    named = NAME.match(line)
    # Most events of a log are not wanted, and their JSON is not parsed.
    if named and not reader.wants(named[1].decode(errors="replace")):
        return
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        reader.unreadable_count += bool(line.strip())
        return
    reader.read_event(event)


def _note(run: SparkRun, reader: EventReader, reading: Reading) -> None:
    unreadable = reader.unreadable_count
    if run.ended_ms is None:
        run.note("The event log has no end: the driver is still at work, or it was killed.")
    # The writer was killed in the middle of a line: one of the unreadable events is that.
    if reading.cut_off and unreadable:
        run.note("The last event is cut off.")
        unreadable -= 1
    if unreadable > 0:
        run.note(f"{unreadable:,} events could not be read and are left out.")
    if reading.long_line_count:
        run.note(f"{reading.long_line_count:,} events were too long and are left out.")
