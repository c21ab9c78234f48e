"""A node of ours in a process of its own, with the commands of `DrivenNode.java` and their results.

As a program it takes its settings as JSON: zookeeper, host, and `node` with further arguments of `hutong.Node`.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from tests.support.driven_process import DrivenProcess

import hutong
from hutong.bus import Message, ReplyError
from hutong.bus.delivery.consumer import Consumer
from hutong.foundation.errors import HutongError

NUMBER_BITS: Final = 40
"""Of a number in a flood; the bits above are the sender's."""


class OwnNode(DrivenProcess):
    """One node of ours."""

    def __init__(
        self,
        zookeeper: str,
        *,
        host: str = "127.0.0.1",
        prefix: Sequence[str] = (),
        node: Mapping[str, Any] | None = None,
    ) -> None:
        """`prefix` are the words that lead to the network of `host`."""
        told = {"zookeeper": zookeeper, "host": host, "node": dict(node or {})}
        super().__init__([*prefix, sys.executable, "-m", "tests.support.own_node", json.dumps(told)])


class Sequences:
    """The numbers that came to one address, by sender."""

    def __init__(self) -> None:
        self.last: dict[int, int] = {}
        self.count = self.disorders = 0

    def note(self, message: Message) -> None:
        value: int = message.body
        self.count += 1
        self.disorders += self.last.get(value >> NUMBER_BITS, -1) >= value
        self.last[value >> NUMBER_BITS] = value

    def figures(self) -> dict[str, int]:
        return {"count": self.count, "disorders": self.disorders}


class Load:
    """Requests without a break: how each ended, and the longest time without an answer."""

    def __init__(self, node: hutong.Node, address: str, timeout_s: float, window: int) -> None:
        self._ended: Counter[str] = Counter()
        self._answered_s = time.monotonic()
        self._longest_s = self._slowest_s = 0.0
        self._tasks = [asyncio.ensure_future(self._ask(node, address, timeout_s)) for _ in range(window)]

    async def _ask(self, node: hutong.Node, address: str, timeout_s: float) -> None:
        while True:
            begun_s = time.monotonic()
            try:
                await node.bus.request(address, "load", timeout=timeout_s)
            except ReplyError as failure:
                self._ended[failure.failure_type.name] += 1
            else:
                self._ended["answered"] += 1
                self._longest_s = max(self._longest_s, time.monotonic() - self._answered_s)
                self._answered_s = time.monotonic()
            self._slowest_s = max(self._slowest_s, time.monotonic() - begun_s)
            # Between two: a failure at once must not become a busy loop.
            await asyncio.sleep(0.001)

    def figures(self) -> dict[str, Any]:
        pauses = {"longest_pause_ms": round(self._longest_s * 1e3), "slowest_ms": round(self._slowest_s * 1e3)}
        return {"ended": dict(self._ended), **pauses}

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


class Commands:
    """The commands of one node, by their names."""

    def __init__(self, node: hutong.Node) -> None:
        self._node = node
        self._bus = node.bus
        self._consumers: dict[str, Consumer] = {}
        self._counts: Counter[str] = Counter()
        self._sequences: dict[str, Sequences] = {}
        self._options: dict[str, Any] = {}
        self._load: Load | None = None
        self._churn: asyncio.Task[int] | None = None
        self._is_churning = True

    async def run(self, command: str, address: str, body: Any) -> Any:
        found = getattr(self, command.replace("-", "_"))(address, body)
        return await found if asyncio.iscoroutine(found) else found

    async def request(self, address: str, body: Any) -> Any:
        return (await self._bus.request(address, body, **self._options)).body

    async def send(self, address: str, body: Any) -> None:
        await self._bus.sender(address).write(body)

    async def publish(self, address: str, body: Any) -> None:
        await self._bus.publisher(address).write(body)

    def options(self, _: str, body: dict[str, Any]) -> None:
        """As those of Vert.x, with milliseconds."""
        self._options = {"timeout": body["timeout"] / 1_000} if "timeout" in body else {}

    async def consume(self, address: str, _: Any) -> None:
        await self._consume(address, lambda message: message.reply(message.body))

    async def collect(self, address: str, _: Any) -> None:
        await self._consume(address, self._sequences.setdefault(address, Sequences()).note)

    async def _consume(self, address: str, handle: Callable[[Message], object]) -> None:
        def counted(message: Message) -> None:
            self._counts[address] += 1
            handle(message)

        consumer = self._consumers[address] = self._bus.consumer(address, counted)
        await consumer.ready()

    async def unconsume(self, address: str, _: Any) -> None:
        await self._consumers.pop(address).unregister()

    def collected(self, address: str, _: Any) -> dict[str, int]:
        return self._sequences[address].figures()

    def pause(self, address: str, _: Any) -> None:
        self._consumers[address].pause()

    def resume(self, address: str, _: Any) -> None:
        self._consumers[address].resume()

    def counts(self, *_: Any) -> dict[str, int]:
        return dict(self._counts)

    async def fill(self, address: str, body: list[int]) -> None:
        """Sends [count, size]: so many messages of so many bytes."""
        count, size = body
        producer = self._bus.sender(address)
        for _ in range(count):
            await producer.write(bytes(size))

    async def flood(self, address: str, body: list[Any]) -> dict[str, int]:
        """Sends or publishes numbers in their order, as fast as they are taken."""
        sender, count, kind = body
        make = self._bus.publisher if kind == "publish" else self._bus.sender
        producer, first, failed = make(address), sender << NUMBER_BITS, 0
        for value in range(first, first + count):
            try:
                await producer.write(value)
            except ReplyError:
                failed += 1
        return {"failed": failed}

    def churn(self, address: str, _: Any) -> None:
        self._churn = asyncio.ensure_future(self._register_again_and_again(address))

    async def _register_again_and_again(self, address: str) -> int:
        rounds = 0
        while self._is_churning:
            passing = self._bus.consumer(address, lambda message: None)
            await passing.ready()
            await passing.unregister()
            rounds += 1
        return rounds

    async def unchurn(self, *_: Any) -> int:
        """How often a consumer has come and gone."""
        assert self._churn is not None
        self._is_churning = False
        return await self._churn

    def load(self, address: str, window: int) -> None:
        self._load = Load(self._node, address, self._options.get("timeout", 30.0), window)

    def loaded(self, *_: Any) -> dict[str, Any]:
        assert self._load is not None
        return self._load.figures()

    def unload(self, *_: Any) -> None:
        assert self._load is not None
        self._load.stop()

    def consumers(self, address: str, _: Any) -> list[str]:
        found: list[str] = []
        for receiver in self._bus._consumers.get(address, ()):
            found += ["one"] * receiver.turns
        return found


async def run(settings: Mapping[str, Any]) -> None:
    listen = f"{settings['host']}:0"
    is_plain = "cluster_tls" not in settings["node"]
    async with hutong.Node(
        cluster=f"zk://{settings['zookeeper']}",
        cluster_listen=listen,
        allow_plain=["bus"] if is_plain else [],
        **settings["node"],
    ) as node:
        commands = Commands(node)
        await commands.consume("echo", None)
        port = int((node.cluster_address or "").rpartition(":")[2])
        tell = partial(print, flush=True)
        tell(json.dumps({"node": node.cluster_node, "port": port}))
        while line := await asyncio.to_thread(sys.stdin.readline):
            command, address, body = line.rstrip("\n").split(" ", 2)
            try:
                answer = {"ok": True, "body": await commands.run(command, address, json.loads(body))}
            except ReplyError as failure:
                told = {"failureType": failure.failure_type.name, "failureCode": failure.failure_code}
                answer = {"ok": False, "message": failure.message, **told}
            except HutongError as error:
                answer = {"ok": False, "message": str(error)}
            tell(json.dumps(answer))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(json.loads(sys.argv[1])))
