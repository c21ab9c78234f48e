"""`hutong pipeline run` and `stop` of declared pipelines."""

import os
import signal
import time
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from hutong.cli.options import AsJson
from hutong.cli.output import print_json, remark
from hutong.cli.pipeline.options import (
    MASTER_DEFAULT,
    ConfOption,
    LogOption,
    MasterOption,
    PipelineArgument,
    StateOption,
    check_log_level,
    checked_pipeline,
    pairs_of,
)
from hutong.foundation.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hutong.pipelines.declared.run.run_folder import PipelineFolder, RunRecord

DECLARED = "declared"
"""The command that runs a file; it has no name of its own on the command line."""
STOP_S_DEFAULT = 120
POLL_S = 0.1


class RunGroup(TyperGroup):
    """`run FILE` and `run JOB` in one command: a word that is no job's name is a pipeline's, or its option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = args if args and args[0] in self.commands else [DECLARED, *args]
        return super().parse_args(ctx, given)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return "" if name == DECLARED else name, command, rest


def run_declared(
    name: PipelineArgument = None,
    once: Annotated[bool, typer.Option("--once", help="Read up to the present end of the sources, then end.")] = False,
    master: MasterOption = MASTER_DEFAULT,
    conf: ConfOption = None,
    state: StateOption = None,
    grace: Annotated[
        int, typer.Option("--grace", metavar="SECONDS", min=0, help="How long the last batch may take when stopping.")
    ] = 60,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the brokers for the topics first.")] = False,
    spark_log: LogOption = "off",
    as_json: AsJson = False,
) -> int:
    """Run a pipeline until its input ends or you stop it; what fails in passing is started again.

    Ctrl-C stops after the batch at work. `run access-log` and `run pagerank` run jobs that need no file.
    """
    from hutong.foundation.clock import SystemClock
    from hutong.pipelines.declared.process.request import Request
    from hutong.pipelines.declared.process.supervisor import Supervisor
    from hutong.pipelines.declared.run.finding import folder_of
    from hutong.pipelines.engine.session import MISSING_EXTRA

    check_log_level(spark_log)
    settings = pairs_of("--conf", conf)
    file, pipeline = checked_pipeline(name, offline=offline)
    if find_spec("pyspark") is None:
        raise UsageError(MISSING_EXTRA, ExitCode.UNAVAILABLE)
    request = Request(
        file=str(file.absolute()),
        folder=str(folder_of(file, pipeline.name, state).path),
        master=master,
        settings=settings,
        once=once,
        spark_log=spark_log,
        grace_s=grace,
    )
    code, record = Supervisor(pipeline, request, SystemClock(), remark).run()
    if record is not None:
        _print_end(record, code, as_json)
    return code


def stop(
    name: PipelineArgument = None,
    state: StateOption = None,
    now: Annotated[bool, typer.Option("--now", help="Do not wait for the batch; it is done again next time.")] = False,
    timeout: Annotated[
        int, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait for the end.")
    ] = STOP_S_DEFAULT,
) -> int:
    """Stop a running pipeline after the batch it is at."""
    from hutong.cli.pipeline.showing import folder_named
    from hutong.pipelines.declared.run.run_folder import UNKNOWN_PID

    folder = folder_named(name, state)
    pid = folder.supervisor_pid
    if pid is None:
        remark(f"pipeline {folder.path.name} is not running")
        return 0
    if pid == UNKNOWN_PID:  # a signal to number 0 would go to ourselves and all that our shell has started with us
        raise UsageError(f"pipeline {folder.path.name} is just starting or ending: try again", ExitCode.TEMPFAIL)
    is_orphan = not _ask_to_end(pid)
    if now:
        time.sleep(POLL_S)  # two signals at once would count as one
        if is_orphan:
            _end_orphan(folder)
        else:
            _ask_to_end(pid)
    deadline_s = time.monotonic() + timeout
    while folder.supervisor_pid is not None:
        if time.monotonic() > deadline_s:
            raise UsageError(
                f"pipeline {folder.path.name} did not stop in {timeout} s: it is at a long batch; stop it with --now",
                ExitCode.TEMPFAIL,
            )
        time.sleep(POLL_S)
    remark(f"pipeline {folder.path.name} has stopped")
    return 0


def _ask_to_end(supervisor_pid: int) -> bool:
    """Signal the supervisor; False if it is gone. A driver without a supervisor ends after its batch."""
    try:
        os.kill(supervisor_pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    return True


def _end_orphan(folder: "PipelineFolder") -> None:
    """End a driver whose supervisor was killed, with its Java process. The lock it inherited shows it is alive."""
    last = folder.last_record()
    if last is not None and folder.supervisor_pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(last[1].pid, signal.SIGKILL)  # its own session, which was started for it alone


def _print_end(record: "RunRecord", code: int, as_json: bool) -> None:
    if as_json:
        print_json({"pipeline": record.pipeline, "state": record.state, "run": record.run_id, "error": record.error})
    elif code and record.error is not None:
        raise UsageError(f"pipeline {record.pipeline} failed: {record.error}", code)
    else:
        seconds = ((record.ended_ms or record.started_ms) - record.started_ms) / 1000
        remark(f"pipeline {record.pipeline} {record.state} after {seconds:.0f} s")
