"""The nodes of a cluster on this machine, each a process of its own.

Strategy: each node is `hutong serve` as in earnest (`dev_node`), with a data folder and ports of its own. It is ready
when it prints its ready line. Nodes end with the process that started them, however that ends (Linux's PDEATHSIG).

Knows nothing of commands or tables.
"""

import asyncio
import ctypes
import json
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import BinaryIO, Final

from hutong.foundation.errors import ExitCode, UsageError
from hutong.reactor.accept.reserved_port import ReservedPort

NODE_MODULE: Final = "hutong.cli.cluster.dev_node"
CUT_SIGNAL: Final = signal.SIGUSR1
HEAL_SIGNAL: Final = signal.SIGUSR2
READY_S_MAX: Final = 60.0
STOP_S_MAX: Final = 20.0
_SET_DEATH_SIGNAL: Final = 1  # prctl(2)
_LOG_BYTES_SHOWN: Final = 2_000


def die_with_parent() -> None:
    """Let the kernel end this process with its parent. For a child between fork and exec; Linux alone has it."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def reserved_port(exit_stack: AsyncExitStack) -> int:
    """A port for a server: the system gives it to nobody else before the stack ends, also between two of its lives."""
    port = ReservedPort()
    exit_stack.callback(port.close)
    return port.number


class ChildNode:
    """One node: start it, kill it, stop it, let it go on; as often as you like."""

    def __init__(self, number: int, folder: Path, arguments: Sequence[str], kafka: str) -> None:
        """`arguments` are those of `hutong serve` that do not concern the node alone."""
        self.number = number
        self.folder = folder
        self.kafka = kafka
        self.is_paused = False
        self.is_cut = False
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def state(self) -> str:
        """In a word, for people."""
        if not self.is_running:
            return "down"
        if self.is_paused:
            return "paused"
        return "cut off" if self.is_cut else "up"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self.is_running else None

    async def start(self) -> None:
        """Start it, and return once it accepts clients. Raises UsageError with its own words where it does not."""
        command = [sys.executable, "-m", NODE_MODULE, "--json", "--data-dir", str(self.folder / "data")]
        command += ["--kafka", self.kafka, "--node-id", str(self.number), *self._arguments]
        with self._open_log() as log:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.PIPE, stderr=log, preexec_fn=die_with_parent
            )
        self.is_paused = self.is_cut = False
        assert self._process.stdout is not None
        # An empty line is the end of its output: the process has ended, and says why in its log.
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), READY_S_MAX)
        except TimeoutError:
            line = b""
        if not line or not json.loads(line).get("ready"):
            await self.kill()
            raise UsageError(
                f"Node {self.number} did not start; it says in {self.folder / 'log'}: {self.last_words()}",
                ExitCode.UNAVAILABLE,
            )

    def _open_log(self) -> BinaryIO:
        self.folder.mkdir(parents=True, exist_ok=True)
        return open(self.folder / "log", "ab")

    def last_words(self) -> str:
        """The end of its log, on one line."""
        content = (self.folder / "log").read_bytes()[-_LOG_BYTES_SHOWN:].decode(errors="replace")
        lines = [line for line in content.splitlines() if line.strip()]
        return lines[-1] if lines else "nothing"

    async def kill(self) -> None:
        """End it as SIGKILL does."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()

    async def stop(self) -> None:
        """End it as a service manager does: it hands over what it leads, and closes its journals."""
        self.resume()  # a paused process takes no signal but SIGKILL
        self._signal(signal.SIGTERM)
        if self._process is not None:
            try:
                await asyncio.wait_for(self._process.wait(), STOP_S_MAX)
            except TimeoutError:
                await self.kill()

    def pause(self) -> None:
        """Stop its process without ending it (SIGSTOP): the others hear nothing of it."""
        self.is_paused = self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.is_paused = False
        self._signal(signal.SIGCONT)

    def cut(self) -> None:
        """End its links with the other nodes, and let none begin."""
        self.is_cut = self._signal(CUT_SIGNAL)

    def heal(self) -> None:
        self._signal(HEAL_SIGNAL)
        self.is_cut = False

    def _signal(self, number: signal.Signals) -> bool:
        if self._process is None or not self.is_running:
            return False
        self._process.send_signal(number)
        return True
