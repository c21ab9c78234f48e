"""Collects all sources about a run: its record, its progress lines, its event log.

Strategy: a note on the page names what is missing; only a run without any source is an error. Knows nothing of HTML.
"""

import json
import os
from pathlib import Path

from hutong.foundation.errors import ExitCode, UsageError
from hutong.pipelines.declared.run.run_folder import ENDED, PROGRESS_BEFORE, PipelineFolder, RunFolder, RunRecord
from hutong.pipelines.engine.micro_batches import micro_batch
from hutong.pipelines.report.collect.event_log import has_event_log, read_event_log
from hutong.pipelines.report.collect.lines import Reading, lines_of_file
from hutong.pipelines.report.collect.live import add_driver
from hutong.pipelines.report.model import Sibling, SparkRun

NO_EVENT_LOG = (
    "There is no event log of this run, so it has no stages here. "
    "With event_log = true under [pipeline], Spark keeps one; it grows as long as the run lasts."
)
ASKED_DRIVER = (
    "The stages are as the driver tells them, which is not which of them waits for which. "
    "With event_log = true under [pipeline], the page shows that, too."
)
DIED = "died"
"""The state of a run whose process is gone without a word."""


def run_of_log(path: Path) -> SparkRun:
    """Read a run from an event log of any Spark application. Raises UsageError."""
    run = SparkRun(name=path.name)
    read_event_log(path, run)
    return run


def run_of_folder(path: Path, run_id: str | None = None) -> SparkRun:
    """Read a run from a pipeline's folder, or from a run's folder. Raises UsageError."""
    if (path / "runs").is_dir():
        return _run_of_pipeline(PipelineFolder(path), run_id)
    if (path / "run.json").is_file() or (path / "progress.jsonl").is_file():
        return _collected(RunFolder(path))
    raise UsageError(f"{path} is no folder of a pipeline: it has no runs in it", ExitCode.NOINPUT)


def _run_of_pipeline(folder: PipelineFolder, run_id: str | None) -> SparkRun:
    runs = folder.runs()
    if run_id is not None:
        chosen = next((run for run in runs if run.path.name == run_id), None)
        if chosen is None:
            known = ", ".join(run.path.name for run in runs[-5:])
            raise UsageError(
                f"pipeline {folder.path.name} has no run {run_id}: the newest are {known}", ExitCode.NOINPUT
            )
    else:
        chosen = next((run for run in reversed(runs) if run.progress.is_file() or has_event_log(run.events)), None)
        if chosen is None:
            raise UsageError(f"no run of pipeline {folder.path.name} has reported anything yet", ExitCode.NOINPUT)
    gathered = _collected(chosen)
    records = [record for run in runs if (record := _record(run)) is not None]
    gathered.siblings = [
        Sibling(record.run_id, _state(record), record.started_ms, record.attempt, record.error) for record in records
    ]
    return gathered


def _collected(folder: RunFolder) -> SparkRun:
    run, record = SparkRun(name=folder.path.name, run_id=folder.path.name), _record(folder)
    if has_event_log(folder.events):
        try:
            read_event_log(folder.events, run)
        except UsageError as error:
            run.note(f"The stages are missing here: {error}.")
    elif not _asked(record, run):
        run.note(NO_EVENT_LOG)
    for path in (folder.path / PROGRESS_BEFORE, folder.progress):
        if path.is_file():
            _read_progress(path, run)
    if record is not None:
        _add_record(record, run)
    return run


def _record(folder: RunFolder) -> RunRecord | None:
    """Read the run's record. None if it is missing or malformed."""
    record = folder.read()
    if record is None or not isinstance(record.pid, int) or not isinstance(record.started_ms, int):
        return None
    return record if isinstance(record.ended_ms, int | None) else None


def _asked(record: RunRecord | None, run: SparkRun) -> bool:
    """Return True if the run's driver is alive and its stages were added."""
    if record is None or not record.ui_url or _state(record) in {*ENDED, DIED}:
        return False
    try:
        if not add_driver(record.ui_url, run):
            run.note(ASKED_DRIVER)
    except UsageError:  # it may have ended just now
        return False
    return True


def _add_record(record: RunRecord, run: SparkRun) -> None:
    run.name, run.master, run.state = record.pipeline, run.master or record.master, _state(record)
    run.started_ms = run.started_ms or record.started_ms
    run.ended_ms = run.ended_ms or record.ended_ms
    if record.error:
        run.add_failure("driver", record.error, record.ended_ms)


def _read_progress(path: Path, run: SparkRun) -> None:
    reading, unreadable = Reading(), 0
    for line in lines_of_file(path, reading):
        try:
            run.add_batch(micro_batch(json.loads(line)))
        except (ValueError, TypeError, RecursionError):
            unreadable += bool(line.strip())
    if unreadable > reading.cut_off:
        run.note(f"{unreadable - reading.cut_off:,} lines of {path.name} could not be read and are left out.")


def _state(record: RunRecord) -> str:
    return record.state if record.state in ENDED or _is_alive(record.pid) else DIED


def _is_alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
