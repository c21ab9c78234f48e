"""The process that is Spark's driver: reads a request from standard input, runs the pipeline once, records the outcome.

Standard input stays open while the supervisor lives. The line `stop`, or its end, means: finish the batch and exit. So
a driver outlives its supervisor by one batch at most. The run's record has the outcome in words; the exit code shows
the supervisor whether a restart may help (`restarts`).
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from hutong.foundation.clock import Clock, SystemClock
from hutong.foundation.errors import ExitCode, HutongError, UsageError
from hutong.pipelines.declared.declare.definition import Pipeline
from hutong.pipelines.declared.declare.reading import read_pipeline
from hutong.pipelines.declared.process.request import Request, as_asked
from hutong.pipelines.declared.process.restarts import EXIT_PASSING
from hutong.pipelines.declared.run.groups import GroupOffsets
from hutong.pipelines.declared.run.progress_log import ProgressLog
from hutong.pipelines.declared.run.run_folder import FAILED, FINISHED, RUNNING, STARTING, STOPPED, STOPPING, RunRecord
from hutong.pipelines.declared.run.running import RunContext, run
from hutong.pipelines.engine.failures import translate
from hutong.pipelines.engine.masters import is_connect
from hutong.pipelines.engine.progress import lasting_lines
from hutong.pipelines.engine.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP = "stop"


def main() -> int:
    """Run the request on standard input. The exit code."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    request = Request.from_line(sys.stdin.readline())
    threading.Thread(target=_listen, args=(stop,), name="supervisor", daemon=True).start()
    return drive(request, stop, SystemClock())


def drive(
    request: Request,
    stop: threading.Event,
    clock: Clock,
    prepare: "Callable[[SparkSession], None]" = lambda session: None,
) -> int:
    """Run a pipeline once, keeping the run's record. `prepare` gets the session first. The exit code."""
    keeper = _Keeper(request, clock)
    keeper.note(STARTING)
    try:
        with _translated():
            pipeline, problems = read_pipeline(keeper.file)
            problems.raise_grave(pipeline.name)
            pipeline = as_asked(pipeline, request)
            groups = GroupOffsets(pipeline)
            log = ProgressLog(request.run_folder, groups.commit_progress)
            with closing(groups):
                summary = _run(pipeline, request, keeper, log, stop, clock, prepare)
    except UsageError as error:
        code = EXIT_PASSING if error.exit_code == ExitCode.UNAVAILABLE else error.exit_code
        keeper.note(FAILED, error=str(error))
        return code
    keeper.note(STOPPED if stop.is_set() else FINISHED)
    if summary:
        sys.stdout.write(summary + "\n")
    return 0


def session_settings(pipeline: Pipeline, request: Request) -> dict[str, str]:
    """The settings of Spark: ours for the run, then the file's, then the command line's."""
    keeps_events = pipeline.event_log if pipeline.event_log is not None else not pipeline.is_endless
    keeps_events = keeps_events and not is_connect(request.master)  # there the server decided when it started
    events = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": request.run_folder.events.absolute().as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    return {**(events if keeps_events else {}), **pipeline.spark, **(request.settings or {})}


def _run(
    pipeline: Pipeline,
    request: Request,
    keeper: "_Keeper",
    log: ProgressLog,
    stop: threading.Event,
    clock: Clock,
    prepare: "Callable[[SparkSession], None]",
) -> str | None:
    with (
        lasting_lines(f"{pipeline.name}: starting Spark", clock) as show,
        spark_session(
            f"hutong {pipeline.name}", request.master, session_settings(pipeline, request), request.spark_log
        ) as session,
    ):
        prepare(session)
        keeper.note(RUNNING, session)
        around = RunContext(
            folder=request.pipeline_folder,
            log=log,
            stop=stop,
            show=lambda text: show(f"{pipeline.name}: {text}"),
            clock=clock,
            grace_s=request.grace_s,
        )
        summary = run(session, pipeline, around)
        if stop.is_set():
            keeper.note(STOPPING)
        return summary


def _listen(stop: threading.Event) -> None:
    for line in sys.stdin:
        if line.strip() == STOP:
            break
    stop.set()


@contextmanager
def _translated() -> Iterator[None]:
    """Turn every error that ends a run into a UsageError with an exit code for the supervisor."""
    from pyspark.errors import PySparkException

    java = import_module("py4j.protocol")
    try:
        yield
    except UsageError:
        raise
    except java.Py4JNetworkError as error:
        raise UsageError("Spark's Java process ended", ExitCode.UNAVAILABLE) from error
    except (PySparkException, java.Py4JError) as error:
        raise translate(error) from error
    except HutongError as error:
        raise UsageError(str(error), ExitCode.UNAVAILABLE) from error


class _Keeper:
    """Keeps the run's record."""

    def __init__(self, request: Request, clock: Clock) -> None:
        self.file = Path(request.file)
        self._clock = clock
        self._folder = request.run_folder
        self._record = RunRecord(
            run_id=request.run_id,
            pipeline=request.pipeline_folder.path.name,
            file=request.file,
            pid=os.getpid(),
            supervisor_pid=request.supervisor_pid,
            started_ms=clock.wall_ms(),
            state=STARTING,
            master=request.master,
            attempt=request.attempt,
        )

    def note(self, state: str, session: "SparkSession | None" = None, error: str | None = None) -> None:
        ended_ms = self._clock.wall_ms() if state in (STOPPED, FINISHED, FAILED) else None
        self._record = replace(self._record, state=state, error=error, ended_ms=ended_ms)
        context = getattr(session, "sparkContext", None) if session is not None else None
        if context is not None:
            self._record = replace(self._record, application_id=context.applicationId, ui_url=context.uiWebUrl)
        self._folder.write(self._record)


if __name__ == "__main__":
    sys.exit(main())
