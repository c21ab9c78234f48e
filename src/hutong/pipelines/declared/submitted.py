"""A declared pipeline under `spark-submit`: one run in the session that Spark has started, and its exit code.

Spark's own command determines the master and the settings. There is no supervisor: a restart by YARN, Kubernetes or a
scheduler resumes after the last whole batch, from the pipeline's folder. `hutong pipeline stop` and `status` work on
the machine with that folder. The source is registered explicitly, since Spark does not look for it in zips.
"""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hutong.foundation.clock import Clock, SystemClock
from hutong.foundation.errors import UsageError
from hutong.pipelines.declared.check.checking import read_and_check
from hutong.pipelines.declared.process.driver import drive
from hutong.pipelines.declared.process.request import GRACE_S_DEFAULT, Request
from hutong.pipelines.declared.run.finding import find, folder_of
from hutong.pipelines.declared.run.run_folder import run_id_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


GATEWAY = "PYSPARK_GATEWAY_PORT"
"""The variable by which `spark-submit` passes the port of the Java process."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the pipeline that the program's arguments name. Return the exit code; errors go to standard error."""
    given = _arguments(words)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        return _run(given, stop, SystemClock())
    except UsageError as error:
        sys.stderr.write(f"hutong: {error}\n")
        return error.exit_code


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs a declared pipeline in the session of spark-submit.")
    parser.add_argument("file", help="the pipeline, a file that ends in .toml or .py")
    parser.add_argument("--once", action="store_true", help="read up to the present end of the sources, then end")
    parser.add_argument("--state", type=Path, help="the folder of checkpoints and runs (default: next to the file)")
    parser.add_argument("--grace", type=int, default=GRACE_S_DEFAULT, metavar="SECONDS",
                        help="how long the last batch may take when stopping (default %(default)s)")  # fmt: skip
    return parser.parse_args(words)


def _run(given: argparse.Namespace, stop: threading.Event, clock: Clock) -> int:
    file = find(str(given.file), Path())
    pipeline, problems = read_and_check(file)
    problems.raise_grave(pipeline.name)
    folder, settings = folder_of(file, pipeline.name, given.state), _settings()
    with folder.locked():
        request = Request(
            file=str(file.absolute()),
            folder=str(folder.path),
            run_id=run_id_at(clock.wall_ms()),
            master=settings["spark.master"],
            settings=settings,
            once=given.once,
            supervisor_pid=os.getpid(),
            grace_s=given.grace,
        )
        run = folder.new_run(request.run_id)
        code = drive(request, stop, clock, _register)
        record = run.read()
        if code and record is not None and record.error is not None:
            raise UsageError(f"pipeline {pipeline.name} failed: {record.error}", code)
        return code


def _settings() -> dict[str, str]:
    """Return the settings of `spark-submit`; like those of a command line they take precedence over the file's."""
    if GATEWAY not in os.environ:
        raise UsageError("this program is for spark-submit; without it, there is hutong pipeline run")

    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # connects to the Java process that started this one
    return dict(SparkConf().getAll())


def _register(session: "SparkSession") -> None:
    from pyspark_hutong import DefaultSource

    session.dataSource.register(DefaultSource)
