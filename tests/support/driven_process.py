"""A node of a clustered bus in a process of its own, driven by a test over its standard input.

Strategy: a line for a command, which is a word, an address and JSON; a line for its result. The node's own process may
be Vert.x's (`vertx_node`) or ours (`own_node`): commands and results are the same, so a test need not know.
"""

import asyncio
import json
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from tests.support.waiting import until

BETWEEN_S: Final = 0.02


class DrivenProcess:
    """One process, which leaves the cluster in order when it is closed. `ask` may be called by one caller at a time."""

    def __init__(self, words: Sequence[str]) -> None:
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.id = ""
        self.port = 0

    def wait_until_ready(self) -> Self:
        ready = self._answer()
        self.id, self.port = ready["node"], ready["port"]
        return self

    def ask_now(self, command: str, address: str = "-", body: Any = None) -> dict[str, Any]:
        """The result of one command, whose body is written as JSON."""
        self.begin(command, address, body)
        return self._answer()

    def begin(self, command: str, address: str = "-", body: Any = None) -> None:
        """Let it begin; `finish` is due."""
        stdin = self.process.stdin
        assert stdin is not None
        stdin.write(f"{command} {address} {json.dumps(body)}\n")
        stdin.flush()

    async def finish(self) -> dict[str, Any]:
        return await asyncio.to_thread(self._answer)

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
        self.close()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Leave the cluster in order. A second call does nothing."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise EOFError(f"the node has ended with {self.process.poll()}")
        found: dict[str, Any] = json.loads(line)
        return found
