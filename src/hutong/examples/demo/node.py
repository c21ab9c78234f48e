"""The node of the demo: `hutong serve` in a separate process, so that it is measured and stopped like any other.

Strategy: the ready line on its standard output is the event to wait for; its log goes to a file next to its data.

Knows nothing of what is sent to it.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from hutong.foundation.errors import ExitCode, UsageError

START_TIMEOUT_SECONDS = 30.0
STOP_TIMEOUT_SECONDS = 20.0
CONSOLE = ("--console", "127.0.0.1:0", "--set", "console.read_only=true")


@dataclass(slots=True)
class DemoNode:
    """A running node: `bootstrap` is where clients connect, `console` HOST:PORT of its console, if it has one."""

    process: "subprocess.Popen[bytes]"
    bootstrap: str
    started_in_seconds: float
    log: Path
    console: str | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    def memory_bytes(self) -> int:
        """Resident memory now."""
        import psutil

        return int(psutil.Process(self.pid).memory_info().rss)

    def processor_seconds(self) -> float:
        """User and system time so far."""
        import psutil

        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def stop(self) -> int:
        """SIGTERM, then wait; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def start_node(data_dir: Path, address: str, *, has_console: bool = False) -> DemoNode:
    """Start a node below `data_dir` and wait until it accepts clients. Its console is one to look at.

    Raises UsageError with its last words if it does not start.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    log = data_dir / "node.log"
    started = time.perf_counter()
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "hutong",
                "serve",
                "--data-dir",
                str(data_dir / "node"),
                "--kafka",
                address,
                "--json",
                *(CONSOLE if has_console else ()),
            ],
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the demo, which then stops its node
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
    line = _first_line(process)
    if not line:
        process.kill()
        process.wait()
        words = log.read_text(errors="replace").strip().splitlines()
        raise UsageError(f"The node did not start: {words[-1] if words else 'it said nothing'}.", ExitCode.UNAVAILABLE)
    ready = json.loads(line)
    return DemoNode(process, ready["kafka"], time.perf_counter() - started, log, ready.get("console"))


def _first_line(process: "subprocess.Popen[bytes]") -> bytes:
    assert process.stdout is not None
    with process.stdout as output, selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        return output.readline() if selector.select(START_TIMEOUT_SECONDS) else b""
