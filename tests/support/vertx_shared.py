"""A node of a real Vert.x cluster that shares data: `tests/compat/java_vertx/SharedNode.java`."""

import asyncio
import json
import pathlib
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from tests.support.maven import java_program
from tests.support.waiting import until

SOURCE: Final = pathlib.Path(__file__).parents[1] / "compat/java_vertx/SharedNode.java"
VERSIONS: Final = ("4.5.27", "5.0.7")
MOSTLY_5: Final = (pytest.param(VERSIONS[0], marks=pytest.mark.thorough), VERSIONS[1])
"""The same as parameters of tests whose subject is the same in both."""
SESSION_MS: Final = 4_000
BETWEEN_S: Final = 0.02


class SharedVertxNode:
    """One process. `ask` may be called by one caller at a time. The words of `availability` are group and quorum."""

    def __init__(
        self, zookeeper: str, version: str, *, session_ms: int = SESSION_MS, availability: Sequence[str] = ()
    ) -> None:
        program = java_program(
            f"vertx-shared-{version}",
            SOURCE,
            f"io.vertx:vertx-core:{version}",
            f"io.vertx:vertx-zookeeper:{version}",
            "org.slf4j:slf4j-nop:1.7.36",
        )
        self.process = subprocess.Popen(
            [*program, zookeeper, str(session_ms), *availability],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.zookeeper = zookeeper
        self.version = version
        self.id = ""

    def wait_until_ready(self) -> "SharedVertxNode":
        self.id = self._answer()["node"]
        return self

    def ask_now(self, do: str, name: str = "", **more: Any) -> Any:
        """The value that the command gives. Raises RuntimeError where it failed."""
        stdin = self.process.stdin
        assert stdin is not None
        stdin.write(json.dumps({"do": do, "name": name, **more}) + "\n")
        stdin.flush()
        answer = self._answer()
        if not answer["ok"]:
            raise RuntimeError(answer["error"])
        self.value_class = answer.get("class")
        return answer["value"]

    async def ask(self, do: str, name: str = "", **more: Any) -> Any:
        return await asyncio.to_thread(self.ask_now, do, name, **more)

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until it is so; the condition may use `ask_now`."""
        await asyncio.to_thread(until, condition, what=what, between_s=BETWEEN_S)

    def kill(self) -> str:
        self.process.send_signal(signal.SIGKILL)
        return self._end()

    def close(self) -> str:
        """Leave the cluster in order. Returns what it has written to its log."""
        return self._end()

    def end(self) -> None:
        """End it, if it has not ended."""
        if self.process.poll() is None:
            self.kill()

    def _end(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None
        log = self.process.communicate(timeout=30)[1]
        return str(log)

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise EOFError(f"the Vert.x node has ended with {self.process.poll()}")
        found: dict[str, Any] = json.loads(line)
        return found
