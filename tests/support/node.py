"""A broker in a process of its own, which a test may stop, kill and start again on the same data.

Strategy: by default a Hutong node. With TEST_BROKER set to the path of a script that starts Apache Kafka
(`SCRIPT start --port N --dir DIR`, prints `ready HOST:PORT pid=N`) the same tests run against that: it tells a wrong
test from a wrong node. Knows nothing of clients.
"""

import os
import pathlib
import signal
from types import TracebackType
from typing import Final

from bench.processes import READY_DEADLINE_S, ReadyProcess
from bench.targets import free_port, hutong_command

KAFKA_SCRIPT: Final = os.environ.get("TEST_BROKER")
IS_HUTONG: Final = not KAFKA_SCRIPT


class Node:
    """One broker and its folder. It keeps its port over restarts, so that clients find it again."""

    def __init__(self, folder: pathlib.Path, *settings: str, listens: bool = True) -> None:
        """It does not say where Kafka clients connect unless it `listens`: then the settings do."""
        self.folder = folder
        self.log_path = folder / "node.log"
        self._settings = settings
        self._listens = listens
        self._port = 0
        self._process: ReadyProcess | None = None

    @property
    def process(self) -> ReadyProcess:
        assert self._process, "not started"
        return self._process

    @property
    def address(self) -> str:
        """`HOST:PORT`, to be used as bootstrap server."""
        return self.process.fields["kafka" if IS_HUTONG else "0"]

    @property
    def pid(self) -> int:
        """Of the broker itself, which for Kafka is a child of the script."""
        return int(self.process.fields["pid"])

    def start(self, deadline_s: float = READY_DEADLINE_S) -> "Node":
        """Starts it (again) and returns when it accepts clients."""
        self._process = ReadyProcess(self._command(), log_path=str(self.log_path)).start(deadline_s)
        self._port = int(self.address.rpartition(":")[2])
        return self

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        return self.process.terminate()

    def restart(self) -> None:
        self.stop()
        self.start()

    def __enter__(self) -> "Node":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process and self._process.is_running:
            self._process.__exit__(kind, error, trace)

    def _command(self) -> list[str]:
        if KAFKA_SCRIPT:
            port, data = self._port or free_port(), str(self.folder / "data")
            return [KAFKA_SCRIPT, "start", "--port", str(port), "--dir", data]
        command = hutong_command(self.folder / "data", f"127.0.0.1:{self._port}")
        if not self._listens:
            at = command.index("--kafka")
            del command[at : at + 2]
        return command + [word for setting in self._settings for word in ("--set", setting)]
