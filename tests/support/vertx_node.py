"""A node of a real Vert.x cluster, driven by a test over its standard input: `DrivenNode.java` has its commands."""

import asyncio
import json
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.support.maven import java_program
from tests.support.waiting import until

SESSION_MS: Final = 4_000
BETWEEN_S: Final = 0.02
VERSIONS: Final = {"4": "4.5.27", "5": "5.0.7"}
"""Vert.x by the first digit of its version. There is no vertx-zookeeper for 5.1 at Maven Central."""
_FOLDER: Final = Path(__file__).parents[1] / "compat" / "java_vertx"
_MAIN: Final = _FOLDER / "DrivenNode.java"
_PARTS: Final = ("vertx-core", "vertx-zookeeper", "vertx-service-proxy")


def vertx_program(version: str) -> list[str]:
    """The words that run a node; it takes its settings behind them. Skips where Java or Maven are missing."""
    number = VERSIONS[version]
    artifacts = [f"io.vertx:{part}:{number}" for part in _PARTS]
    sources = sorted({*_FOLDER.glob("*.java"), *(_FOLDER / f"of{version}").glob("*.java")} - {_MAIN})
    return java_program(
        f"vertx-{number}",
        _MAIN,
        *artifacts,
        f"io.vertx:vertx-codegen:{number}:processor",
        "org.slf4j:slf4j-nop:1.7.36",
        also=sources,
        options=("-Dvertx.disableFileCPResolving=true", "-Dvertx.disableFileCaching=true"),
        package="driven",
        generates=True,
    )


class VertxNode:
    """One process. `ask` may be called by one caller at a time."""

    def __init__(
        self,
        zookeeper: str,
        version: str,
        *,
        session_ms: int = SESSION_MS,
        host: str = "127.0.0.1",
        prefix: Sequence[str] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`version` is a key of VERSIONS; `prefix` are the words that lead to the network of `host`."""
        told = {"zookeeper": zookeeper, "session": session_ms, "host": host, **(settings or {})}
        self.process = subprocess.Popen(
            [*prefix, *vertx_program(version), json.dumps(told)],
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

    def ask_now(self, command: str, address: str = "-", body: Any = None) -> dict[str, Any]:
        """The result of one command, whose body is written as JSON."""
        stdin = self.process.stdin
        assert stdin is not None
        stdin.write(f"{command} {address} {json.dumps(body)}\n")
        stdin.flush()
        return self._answer()

    async def ask(self, command: str, address: str = "-", body: Any = None) -> dict[str, Any]:
        return await asyncio.to_thread(self.ask_now, command, address, body)

    async def told(self, command: str, address: str = "-", body: Any = None) -> Any:
        """What a command that cannot fail has found."""
        answer = await self.ask(command, address, body)
        assert answer["ok"], answer
        return answer.get("body")

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

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

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
