"""The command `hutong demo`: a node around the example, tables after it, and an exit code for its answers.

Strategy: a missing Spark is reported before a node is started. The node is stopped however the run ends, unless the
user asked to keep it.

Knows nothing of the steps: `hutong.examples.demo` has them.
"""

import importlib.util
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from hutong.cli.options import AsDocument
from hutong.cli.output import remark
from hutong.foundation.errors import ExitCode, UsageError

ERASE_LINE = "\r\x1b[2K"


def demo(
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="Where the data lies; else a temporary folder.")
    ] = None,
    kafka: Annotated[str, typer.Option("--kafka", metavar="HOST:PORT", help="Where the node listens.")] = "127.0.0.1:0",
    access_log: Annotated[
        Path | None, typer.Option("--access-log", metavar="FILE", help="A web server's log in combined format.")
    ] = None,
    keep_running: Annotated[bool, typer.Option("--keep-running", help="Leave the node up at the end.")] = False,
    as_json: AsDocument = False,
) -> int:
    """Start a node, send real events through it, run jobs on Spark over them, and check every answer."""
    _check(access_log)
    from hutong.examples.demo.node import start_node
    from hutong.examples.demo.report import Findings, print_findings
    from hutong.examples.demo.run import Demo

    started = time.perf_counter()
    data_dir = (data_dir or Path(tempfile.mkdtemp(prefix="hutong-demo-"))).absolute()
    node = start_node(data_dir, kafka, has_console=keep_running)
    findings = Findings(node.bootstrap, data_dir, data_dir / "results", node.started_in_seconds)
    keep = False
    try:
        say(f"a node is ready at {node.bootstrap} after {node.started_in_seconds:.2f} s")
        run = Demo(findings, say)
        run.run(access_log)
        findings.node_memory_bytes, findings.node_cpu_seconds = node.memory_bytes(), node.processor_seconds()
        keep = keep_running
    finally:
        if not keep and (code := node.stop()):
            findings.faults.append(f"The node ended with exit code {code}; its log is {node.log}.")
    findings.seconds = time.perf_counter() - started
    print_findings(findings, run.edges, as_json=as_json)
    if findings.faults:
        raise UsageError(" ".join(findings.faults), ExitCode.DATAERR)
    remark("\nEvery record arrived, in order and unchanged, and every answer was computed twice with the same result.")
    if keep:
        remark(f"Look at its data in a browser: http://{node.console}")
        remark(f"The node stays up at {node.bootstrap}; stop it with: kill {node.pid}")
    return 0


def say(step: str) -> None:
    """Print a finished step, over a live line if there is one."""
    remark(f"{ERASE_LINE if sys.stderr.isatty() else ''}• {step}")


def _check(access_log: Path | None) -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise UsageError(
            "The demo's jobs run on Spark: install it with pip install 'hutong[spark]'.", ExitCode.UNAVAILABLE
        )
    if access_log is not None and (access_log.is_dir() or not os.access(access_log, os.R_OK)):
        raise UsageError(f"{access_log} is no file that you may read.", ExitCode.NOINPUT)
