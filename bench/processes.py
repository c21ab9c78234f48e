"""Server processes that say `ready ...` on standard output: started, awaited with a deadline, ended.

Knows nothing of what the servers are. Used by the bench and by the tests that need a node of their own.
"""

import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

READY_DEADLINE_S: Final = 60.0
STOP_DEADLINE_S: Final = 30.0


class DidNotStart(Exception):
    """The process ended, or kept silent, before it was ready. The message carries what it wrote to standard error."""


class ReadyProcess:
    """A child process. After `start`, `fields` holds the words of its ready line: `key=value`, others by position."""

    def __init__(self, command: Sequence[str], *, log_path: str, environment: Mapping[str, str] | None = None) -> None:
        self.command = list(command)
        self.fields: dict[str, str] = {}
        self.started_at_s = 0.0
        self.ready_at_s = 0.0
        self._log_path = log_path
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("not started")
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, deadline_s: float = READY_DEADLINE_S) -> "ReadyProcess":
        with open(self._log_path, "ab") as log:
            self.started_at_s = time.monotonic()
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=self._environment
            )
        threading.Thread(target=self._read_lines, args=(self._process,), daemon=True).start()
        give_up = self.started_at_s + deadline_s
        while True:
            line = self._next_line(give_up)
            if line.startswith(b"ready"):
                break
        self.ready_at_s = time.monotonic()
        words = line.decode().split()[1:]
        self.fields = dict(
            word.split("=", 1) if "=" in word else (str(place), word)  # type: ignore[misc]
            for place, word in enumerate(words)
        )
        return self

    def log_tail(self, bytes_max: int = 4000) -> str:
        with open(self._log_path, "rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - bytes_max))
            return log.read().decode(errors="replace")

    def send_signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, deadline_s: float = STOP_DEADLINE_S) -> int:
        """The exit status; raises `subprocess.TimeoutExpired` when it does not end in time."""
        status = self.process.wait(deadline_s)
        self._close_pipes()
        return status

    def terminate(self, deadline_s: float = STOP_DEADLINE_S) -> int:
        """Asks it to stop (SIGTERM) and waits."""
        if self.is_running:
            self.send_signal(signal.SIGTERM)
        return self.wait(deadline_s)

    def kill(self) -> int:
        """SIGKILL, now."""
        if self.is_running:
            self.process.kill()
        return self.wait()

    def __enter__(self) -> "ReadyProcess":
        return self if self._process else self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        try:
            self.terminate()
        except subprocess.TimeoutExpired:
            self.kill()

    def _next_line(self, give_up_s: float) -> bytes:
        try:
            line = self._lines.get(timeout=max(0.0, give_up_s - time.monotonic()))
        except queue.Empty:
            line = b""
        if not line:
            self.kill()
            raise DidNotStart(f"{' '.join(self.command)}\n{self.log_tail()}")
        return line

    def _read_lines(self, process: subprocess.Popen[bytes]) -> None:
        output = process.stdout
        assert output is not None
        for line in output:
            self._lines.put(line)
        self._lines.put(b"")
        output.close()

    def _close_pipes(self) -> None:
        if self.process.stdin:
            self.process.stdin.close()
