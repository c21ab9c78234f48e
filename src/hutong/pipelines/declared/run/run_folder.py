"""The folder of a pipeline's state, which outlives its processes: checkpoints, and a record of each run.

    STATE/NAME/lock                       held while a supervisor runs the pipeline
              /checkpoint/SINK/           Spark's, one per sink
              /runs/RUN_ID/run.json       one `RunRecord`
                          /progress.jsonl one progress of a streaming query a line, as Spark gives it; older ones
                                          are in progress.1.jsonl, and the oldest are dropped
                          /events/        Spark's event log, neither compressed nor rolled

Each start of a driver is a run, so a restarted pipeline has several. Files are replaced as a whole, or appended to by
whole lines: a reader finds at worst a truncated last line. Knows nothing of Spark.
"""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hutong.foundation.errors import ExitCode, UsageError

STATE_DEFAULT = Path(".hutong", "pipelines")
"""The default, next to the pipeline's file."""
STARTING, RUNNING, STOPPING = "starting", "running", "stopping"
STOPPED, FINISHED, FAILED = "stopped", "finished", "failed"
ENDED = (STOPPED, FINISHED, FAILED)
"""Stopped by the user, at the end of its input, or by an error."""
PROGRESS_BEFORE = "progress.1.jsonl"
"""The older progress file, set aside when it had grown large."""
TAIL_BYTES_MAX = 256 * 2**10
"""The part of a progress file that is read for its last lines."""
PROGRESS_BYTES_MAX = 64 * 2**20
"""The size at which a progress file is set aside for a new one; an endless stream writes about 17 MB a day."""
RUNS_MAX = 50
"""The number of runs that are kept."""
LOCK_ATTEMPTS = 5  # a status command holds the lock for a moment
LOCK_PAUSE_S = 0.05
PID_DIGITS_MAX = 20
UNKNOWN_PID = 0
PRIVATE, PRIVATE_FILE = 0o700, 0o600
"""A pipeline's folder is its owner's: checkpoints and event logs tell what is in the data."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One start of a driver. Times are Unix milliseconds."""

    run_id: str
    pipeline: str
    file: str
    pid: int
    """Of the process that is Spark's driver."""
    supervisor_pid: int
    """Of the process that starts drivers; it understands SIGTERM as the wish to stop."""
    started_ms: int
    state: str
    master: str
    attempt: int = 1
    """The how-manieth start since the user's command."""
    ended_ms: int | None = None
    error: str | None = None
    application_id: str | None = None
    ui_url: str | None = None


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run."""

    path: Path

    @property
    def progress(self) -> Path:
        return self.path / "progress.jsonl"

    @property
    def events(self) -> Path:
        return self.path / "events"

    def write(self, record: RunRecord) -> None:
        """Replace the record."""
        draft = self.path / ".run.json.new"
        draft.write_text(json.dumps(asdict(record), indent=2) + "\n", encoding="utf-8")
        draft.replace(self.path / "run.json")

    def read(self) -> RunRecord | None:
        """None for a folder without a record that can be read: a run that ended before it began."""
        known = {field.name for field in fields(RunRecord)}
        try:
            content = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
            record = RunRecord(**{name: value for name, value in content.items() if name in known})
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return None
        # A signal to 0 or below would reach whole groups of processes.
        return record if type(record.pid) is int and record.pid > 0 else None

    def append_progress(self, line: str) -> None:
        """Add one progress: a JSON document without line breaks."""
        # One older file is kept, so a run's progress is bounded by twice this size.
        if self.progress.exists() and self.progress.stat().st_size > PROGRESS_BYTES_MAX:
            self.progress.replace(self.path / PROGRESS_BEFORE)
        with self.progress.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def last_progress(self) -> list[Mapping[str, Any]]:
        """The newest progress documents, oldest first; a cut-off line is left out."""
        lines, _ = _last_lines(self.progress, TAIL_BYTES_MAX)
        return [document for document in map(document_of, lines) if document is not None]

    def newest_lines(self, bytes_max: int) -> tuple[list[bytes], bool]:
        """The newest progress as lines of its files, the newest file first, and True where older ones were left out."""
        lines, is_cut = _last_lines(self.progress, bytes_max)
        left = 0 if is_cut else bytes_max - sum(map(len, lines))
        older, is_cut_before = _last_lines(self.path / PROGRESS_BEFORE, left)
        return lines + older, is_cut or is_cut_before


@dataclass(frozen=True, slots=True)
class PipelineFolder:
    """The folder of one pipeline, with all its runs."""

    path: Path

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    def new_run(self, run_id: str) -> RunFolder:
        """Make the folder of a run, and drop the oldest runs. Raises UsageError when that cannot be."""
        # Before the new run is made, so that it counts as one of RUNS_MAX.
        for old in self.runs()[: -RUNS_MAX + 1]:
            shutil.rmtree(old.path, ignore_errors=True)
        run = RunFolder(self.path / "runs" / run_id)
        try:
            self._make()
            for folder in (self.checkpoint, run.path.parent):
                folder.mkdir(exist_ok=True)
            run.path.mkdir()
            run.events.mkdir()
        except OSError as error:
            raise UsageError(
                f"the folder {run.path} cannot be made: {error.strerror}; choose another with --state",
                ExitCode.CANTCREAT,
            ) from error
        return run

    def _make(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.mkdir(mode=PRIVATE, exist_ok=True)

    def runs(self) -> list[RunFolder]:
        """Oldest first: the ids of runs sort by time."""
        try:
            return [RunFolder(path) for path in sorted((self.path / "runs").iterdir()) if path.is_dir()]
        except OSError:
            return []

    def last_record(self) -> tuple[RunFolder, RunRecord] | None:
        """The newest run that has a record."""
        # The newest may have none: its driver was killed before the first record.
        for run in reversed(self.runs()):
            record = run.read()
            if record is not None:
                return run, record
        return None

    @property
    def supervisor_pid(self) -> int | None:
        """The process that runs the pipeline; None when none does, `UNKNOWN_PID` while one takes the lock.

        The system frees the lock of one that was killed. A driver that outlives its supervisor, to finish its batch,
        holds the lock until it ends.
        """
        try:
            with (self.path / "lock").open("rb") as file:
                if _try_lock(file.fileno(), fcntl.LOCK_SH):
                    return None
                content = file.read(PID_DIGITS_MAX)
        except OSError:
            return None
        return int(content) if content.isdigit() else UNKNOWN_PID

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Hold the pipeline for this process and yield the lock's descriptor. Raises UsageError when another does."""
        try:
            self._make()
            file = os.fdopen(_open_lock(self.path / "lock"), "a+b")
        except OSError as error:
            raise UsageError(
                f"the folder {self.path} cannot be used: {error.strerror}; choose another with --state",
                ExitCode.CANTCREAT,
            ) from error
        with file:
            if not _try_lock(file.fileno(), fcntl.LOCK_EX, LOCK_ATTEMPTS):
                raise UsageError(
                    f"pipeline {self.path.name} is running already: stop it first, with hutong pipeline stop",
                    ExitCode.TEMPFAIL,
                )
            file.truncate(0)
            file.write(b"%d" % os.getpid())
            file.flush()
            yield file.fileno()


def _open_lock(path: Path) -> int:
    """Fails for a symbolic link: the file is emptied, and a link may name any other."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, PRIVATE_FILE)


def run_id_at(now_ms: int) -> str:
    """The id of a run that begins at this Unix time, sorting by time."""
    return f"{datetime.fromtimestamp(now_ms / 1000, UTC):%Y%m%dT%H%M%S}.{now_ms % 1000:03}Z"


def state_folder(state: Path | None, base: Path) -> Path:
    """Return STATE: the user's choice, else the default next to the pipeline's file."""
    return (state if state is not None else base / STATE_DEFAULT).absolute()


def pipelines_in(state: Path) -> list[PipelineFolder]:
    """The pipelines that ever ran with this STATE, by name."""
    try:
        return [PipelineFolder(path) for path in sorted(state.iterdir()) if (path / "runs").is_dir()]
    except OSError:
        return []


def _try_lock(descriptor: int, kind: int, attempts: int = 1) -> bool:
    for attempt in range(attempts):
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            # Not after the last attempt, which would only delay the error.
            if attempt + 1 < attempts:
                time.sleep(LOCK_PAUSE_S)
        else:
            return True
    return False


def _last_lines(path: Path, bytes_max: int) -> tuple[list[bytes], bool]:
    """The whole lines in the last bytes of a file, and True where there are more; none of a file that is missing."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - bytes_max))
            lines = file.read(bytes_max).split(b"\n")
    except OSError:
        return [], False
    is_cut = size > bytes_max
    return (lines[1:-1] if is_cut else lines[:-1]), is_cut


def document_of(line: bytes) -> Mapping[str, Any] | None:
    """A line as a document, None where it is none."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
