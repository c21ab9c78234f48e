"""Peer networks on loopback in one loop, with real clocks, and listeners that note what they hear."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from hutong.cluster.peers.identity import PeerIdentity
from hutong.cluster.peers.limits import PeerLimits
from hutong.cluster.peers.network import PeerNetwork
from hutong.cluster.peers.port import PeerMessage
from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import settle_future
from hutong.replication.replica_messages import ReplicaMessage
from hutong.runtime.loops.timers import LoopTimers

SECRET = b"the secret of the cluster"
News = tuple[Any, ...]


class NotingListener:
    """Notes all news in order: ("opened", node, incarnation), ("closed", node, is_process_gone)."""

    def __init__(self) -> None:
        self.news: list[News] = []
        self.messages: list[tuple[int, ReplicaMessage]] = []
        self.on_message: Callable[[int, ReplicaMessage], None] = lambda node, message: self.messages.append(
            (node, message)
        )
        self._changed = asyncio.Event()

    def link_opened(self, node: int, incarnation: int) -> None:
        self._note(("opened", node, incarnation))

    def link_closed(self, node: int, *, is_process_gone: bool) -> None:
        self._note(("closed", node, is_process_gone))

    def replica_told(self, node: int, message: ReplicaMessage) -> None:
        self.on_message(node, message)
        self._changed.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until it is so, asked after each piece of news and each message."""
        while not is_so():
            self._changed.clear()
            await self._changed.wait()

    async def heard(self, *news: News) -> None:
        """Wait until all of these have come."""
        await self.until(lambda: all(piece in self.news for piece in news))

    def _note(self, news: News) -> None:
        self.news.append(news)
        self._changed.set()


class PeerNode:
    """One network with its listener; `start` listens."""

    def __init__(self, scene: "PeerScene", node: int, incarnation: int, options: dict[str, Any]) -> None:
        self.node = node
        self.incarnation = incarnation
        self.listener = NotingListener()
        identity = options.pop("identity", None) or PeerIdentity("the cluster", node, incarnation, "1.0")
        secret = options.pop("secret", SECRET)
        clock = options.pop("clock", scene.clock)
        self.network = PeerNetwork(
            scene.loop,
            clock=clock,
            wheel=scene.wheel,
            identity=identity,
            secret=secret,
            listener=self.listener,
            limits=scene.limits,
            **options,
        )
        self.address = ("127.0.0.1", 0, incarnation)

    def ask(self, node: int, question: PeerMessage, timeout_ms: int = 5_000) -> "asyncio.Future[PeerMessage]":
        future: asyncio.Future[PeerMessage] = asyncio.get_running_loop().create_future()

        def then(outcome: PeerMessage | HutongError) -> None:
            settle_future(future, outcome)

        self.network.ask(node, question, timeout_ms, then)
        return future


class PeerScene:
    """Any number of nodes."""

    def __init__(self, limits: PeerLimits) -> None:
        self.loop = asyncio.get_running_loop()
        self.clock = SystemClock()
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self.limits = limits
        self.nodes: list[PeerNode] = []

    async def start(self, node: int, incarnation: int = 0, port: int = 0, **options: Any) -> PeerNode:
        started = PeerNode(self, node, incarnation or 100 + node, options)
        self.nodes.append(started)
        host, port = await started.network.listen("127.0.0.1", port)
        started.address = (host, port, started.incarnation)
        return started

    async def stop(self, node: PeerNode) -> None:
        self.nodes.remove(node)
        await node.network.close()

    def introduce(self, *nodes: PeerNode) -> None:
        """Let these know of each other."""
        for one in nodes:
            one.network.set_addresses({other.node: other.address for other in nodes})

    async def linked(self, *numbers: int) -> tuple[PeerNode, ...]:
        """Nodes with these numbers, all linked."""
        nodes = [await self.start(number) for number in numbers]
        self.introduce(*nodes)
        for one in nodes:
            await one.listener.heard(*[("opened", each.node, each.incarnation) for each in nodes if each is not one])
        return tuple(nodes)


@asynccontextmanager
async def peer_scene(**limits: int) -> AsyncIterator[PeerScene]:
    scene = PeerScene(PeerLimits(**limits))
    timers = LoopTimers(scene.loop, scene.wheel, scene.clock)
    try:
        async with asyncio.timeout(20):
            yield scene
    finally:
        for node in list(scene.nodes):
            await scene.stop(node)
        timers.close()
