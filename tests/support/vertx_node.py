"""A node of a real Vert.x cluster, driven by a test over its standard input: see the peer's own description."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from typing import Any, Final

import pytest
from tests.compat.test_bridge_against_vertx import PEER
from tests.support.waiting import until

SESSION_MS: Final = 4_000
BETWEEN_S: Final = 0.02


class VertxNode:
    """One process. `ask` may be called by one caller at a time."""

    def __init__(self, zookeeper: str, name: str, *, session_ms: int = SESSION_MS) -> None:
        if not os.access(PEER, os.X_OK):
            pytest.skip("no Vert.x peer: name its script in HUTONG_TEST_VERTX_PEER")
        if not shutil.which("java") or not shutil.which("mvn"):
            pytest.skip("java and mvn are not installed")
        self.process = subprocess.Popen(
            [PEER, "node", "--zookeeper", zookeeper, "--name", name, "--session", str(session_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.id = ""
        self.port = 0

    def wait_until_ready(self) -> "VertxNode":
        ready = self._answer()
        self.id, self.port = ready["node"], ready["port"]
        return self

    def ask_now(self, command: str, address: str = "", body: Any = ...) -> dict[str, Any]:
        """The result of one command, whose body is written as JSON."""
        stdin = self.process.stdin
        assert stdin is not None
        words = [command, *([address] if address else []), *([] if body is ... else [json.dumps(body)])]
        stdin.write(" ".join(words) + "\n")
        stdin.flush()
        return self._answer()

    async def ask(self, command: str, address: str = "", body: Any = ...) -> dict[str, Any]:
        return await asyncio.to_thread(self.ask_now, command, address, body)

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until it is so; the condition may use `ask_now`."""
        await asyncio.to_thread(until, condition, what=what, between_s=BETWEEN_S)

    async def until_consumers(self, address: str, count: int) -> None:
        """Wait until the node knows so many consumers of the address."""
        await self.until(
            lambda: len(self.ask_now("consumers", address)["body"]) == count, f"{count} consumers of {address}"
        )

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self._end()

    def close(self) -> None:
        """Leave the cluster in order."""
        self._end()

    def _end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise EOFError(f"the Vert.x node has ended with {self.process.poll()}")
        found: dict[str, Any] = json.loads(line)
        return found
