"""Runs a pipeline for as long as the user wants it: starts a driver process, and another when it ends by a failure.

The driver is a separate process, so that a new one can replace it after any failure in it, in Java or in Spark's
planner. The checkpoint makes the new one resume after the last whole batch. The supervisor imports no Spark and holds
the pipeline's lock, which a driver inherits. Ctrl-C and SIGTERM request a stop after the batch; a second one stops at
once. `restarts` decides on restarts.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode
from hutong.pipelines.declared.declare.definition import Pipeline
from hutong.pipelines.declared.process.request import Request
from hutong.pipelines.declared.process.restarts import Restarts, cause_of
from hutong.pipelines.declared.run.run_folder import ENDED, FAILED, STARTING, RunFolder, RunRecord, run_id_at

KILL_S = 30
"""The time for a driver to exit by itself after the grace period."""
POLL_S = 0.2
DRIVER = (sys.executable, "-m", "hutong.pipelines.declared.process.driver")

Report = Callable[[str], None]


class Supervisor:
    """Runs one pipeline. `report` shows a sentence to the user."""

    def __init__(
        self, pipeline: Pipeline, request: Request, clock: Clock, report: Report, command: Sequence[str] = DRIVER
    ) -> None:
        self._pipeline = pipeline
        self._request = request
        self._clock = clock
        self._report = report
        self._command = command
        self._restarts = Restarts(pipeline.restarts)
        self._stop = threading.Event()
        self._driver: subprocess.Popen[str] | None = None

    def run(self) -> tuple[int, RunRecord | None]:
        """Until the pipeline ends or fails for good. The exit code and the record of the last run."""
        with self._request.pipeline_folder.locked() as lock, self._signals():
            attempt = 0
            while True:
                attempt += 1
                run, code = self._run_once(attempt, lock)
                record = self._closed(run, code)
                if code == 0 or self._stop.is_set():
                    return max(code, 0), record
                pause_s = self._restarts.after(cause_of(code), progressed=bool(run.last_progress()))
                if pause_s is None:
                    return code if code > 0 else ExitCode.SOFTWARE, record
                self._report(f"{_reason(record, code)}; starting again in {pause_s:.0f} s")
                if self._stop.wait(pause_s):
                    return 0, record

    def _run_once(self, attempt: int, lock: int) -> tuple[RunFolder, int]:
        now_ms = self._clock.wall_ms()
        run_id = run_id_at(now_ms)
        request = replace(self._request, run_id=run_id, attempt=attempt, supervisor_pid=os.getpid())
        run = request.pipeline_folder.new_run(run_id)
        self._driver = driver = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            text=True,
            env=_environment(self._pipeline.folder),
            start_new_session=True,  # Ctrl-C is for the supervisor alone
            pass_fds=(lock,),
        )
        run.write(_record(request, driver.pid, now_ms))
        try:
            self._send(request.to_line())
            return run, self._wait(driver)
        finally:
            _end_group(driver)
            self._driver = None

    def _wait(self, driver: "subprocess.Popen[str]") -> int:
        """Wait for the driver to exit; kill one that does not exit in time after a stop request."""
        deadline_ms: int | None = None
        stop_sent = False
        while True:
            with suppress(subprocess.TimeoutExpired):
                return driver.wait(POLL_S)
            if self._stop.is_set() and not stop_sent:
                stop_sent = True
                self._send("stop\n")
                deadline_ms = self._clock.monotonic_ms() + (self._request.grace_s + KILL_S) * 1000
            if deadline_ms is not None and self._clock.monotonic_ms() > deadline_ms:
                driver.kill()

    def _send(self, line: str) -> None:
        assert self._driver is not None
        assert self._driver.stdin is not None
        with suppress(BrokenPipeError):  # it ended: that is seen by its exit code
            self._driver.stdin.write(line)
            self._driver.stdin.flush()

    def _closed(self, run: RunFolder, code: int) -> RunRecord | None:
        """The record of a run that is over; a driver that was killed could not write how it ended."""
        record = run.read()
        if record is not None and record.state not in ENDED:
            error = f"the driver was killed by signal {-code}" if code < 0 else f"the driver ended with code {code}"
            record = replace(record, state=FAILED, ended_ms=self._clock.wall_ms(), error=error)
            run.write(record)
        return record

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM ask for the end, twice for the end at once."""

        def note(_number: int, _frame: FrameType | None) -> None:
            if self._stop.is_set() and self._driver is not None:
                self._driver.kill()
            elif not self._stop.is_set():
                self._report("stopping after this batch; once more to stop at once")
            self._stop.set()

        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _record(request: Request, pid: int, now_ms: int) -> RunRecord:
    return RunRecord(
        run_id=request.run_id,
        pipeline=request.pipeline_folder.path.name,
        file=request.file,
        pid=pid,
        supervisor_pid=request.supervisor_pid,
        started_ms=now_ms,
        state=STARTING,
        master=request.master,
        attempt=request.attempt,
    )


def _environment(folder: Path) -> dict[str, str]:
    """Put the folder of the pipeline's file on the path of Python's workers."""
    path = os.pathsep.join(filter(None, (str(folder.absolute()), os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": path}


def _end_group(driver: "subprocess.Popen[str]") -> None:
    """Kill the rest of a driver's process group: its Java process would otherwise finish tasks during the next run."""
    if driver.stdin is not None:
        with suppress(BrokenPipeError):
            driver.stdin.close()
    driver.wait()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(driver.pid, signal.SIGKILL)  # its own session, started for it alone


def _reason(record: RunRecord | None, code: int) -> str:
    return record.error if record is not None and record.error else f"the driver ended with code {code}"
