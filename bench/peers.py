"""Links between nodes over loopback: `python -m bench peers`.

Strategy: two networks in one process and on one loop, so a figure is the work of both sides together. Chunks are
shipped as replication does it, 8 MiB at most that are not acknowledged; small messages in one direction; questions one
at a time. Medians of the turns are shown.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import uvloop

from hutong.cluster.peers.identity import PeerIdentity
from hutong.cluster.peers.network import PeerNetwork
from hutong.cluster.peers.port import PeerMessage
from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import TimerWheel
from hutong.replication.replica_messages import ChunksAcknowledged, ChunksShipped, CommitTold, ReplicaMessage
from hutong.runtime.loops.timers import LoopTimers

MEBIBYTE: Final = 1024 * 1024
WINDOW_BYTES: Final = 8 * MEBIBYTE
QUESTION: Final = 7


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench peers", description=__doc__)
    parser.add_argument("--turns", type=int, default=5, help="of each kind after a warm-up (default %(default)s)")
    parser.add_argument("--chunk-bytes", type=int, default=MEBIBYTE, help="size of a chunk (default %(default)s)")
    uvloop.run(_measure(parser.parse_args(words)))
    return 0


class _Side:
    """A network; what it hears is counted, and chunks are acknowledged."""

    def __init__(self, node: int, clock: SystemClock, wheel: TimerWheel) -> None:
        loop, identity = asyncio.get_running_loop(), PeerIdentity("bench", node, node)
        self.node = node
        self.messages = 0
        self.acknowledged = 0
        self.changed = asyncio.Event()
        self.network = PeerNetwork(loop, clock=clock, wheel=wheel, identity=identity, secret=None, listener=self)

    def link_opened(self, node: int, incarnation: int) -> None:
        self.changed.set()

    def link_closed(self, node: int, *, is_process_gone: bool) -> None:
        self.changed.set()

    def replica_told(self, node: int, message: ReplicaMessage) -> None:
        self.messages += 1
        if isinstance(message, ChunksShipped):
            end = message.start_position + len(message.content)
            self.network.send(node, ChunksAcknowledged(message.group, 1, end, 0))
        elif isinstance(message, ChunksAcknowledged):
            self.acknowledged = message.held_position
        self.changed.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self.changed.clear()
            await self.changed.wait()


async def _measure(options: argparse.Namespace) -> None:
    clock = SystemClock()
    wheel = TimerWheel(clock.monotonic_ms())
    timers = LoopTimers(asyncio.get_running_loop(), wheel, clock)
    one, two = _Side(1, clock, wheel), _Side(2, clock, wheel)
    host, port = await two.network.listen("127.0.0.1", 0)
    one.network.set_addresses({2: (host, port, 2)})
    await one.until(lambda: one.network.is_open(2))
    await two.until(lambda: two.network.is_open(1))
    two.network.register(QUESTION, lambda _, question, then: then(question))
    kinds: list[tuple[str, str, Callable[[], Awaitable[float]]]] = [
        ("chunks of one direction", "MB/s", lambda: _ship(one, options.chunk_bytes)),
        ("small messages", "messages/s", lambda: _tell(one, two)),
        ("questions one at a time", "us each", lambda: _ask(one)),
    ]
    for name, unit, turn in kinds:
        await turn()
        figures = [await turn() for _ in range(options.turns)]
        print(f"{name:26} {statistics.median(figures):12,.0f} {unit}")
    await one.network.close()
    await two.network.close()
    timers.close()


async def _ship(one: _Side, size: int) -> float:
    content, total = bytes(size), 256 * MEBIBYTE
    shipped, one.acknowledged = 0, 0
    begun = time.perf_counter()
    while one.acknowledged < total:
        while shipped < total and shipped - one.acknowledged < WINDOW_BYTES:
            one.network.send(2, ChunksShipped("days", 1, shipped, 0, content))
            shipped += size
        before = one.acknowledged
        await one.until(lambda before=before: one.acknowledged > before)  # type: ignore[misc]
    return total / 1e6 / (time.perf_counter() - begun)


async def _tell(one: _Side, two: _Side) -> float:
    count, batch = 100_000, 1_000
    begun, first = time.perf_counter(), two.messages
    for at in range(0, count, batch):
        for position in range(at, at + batch):
            one.network.send(2, CommitTold("days", 1, position))
        await asyncio.sleep(0)
    await two.until(lambda: two.messages - first == count)
    return count / (time.perf_counter() - begun)


async def _ask(one: _Side) -> float:
    count = 5_000
    begun = time.perf_counter()
    for _ in range(count):
        answered: asyncio.Future[PeerMessage | HutongError] = asyncio.get_running_loop().create_future()
        one.network.ask(2, PeerMessage(QUESTION, {}), 3_000, answered.set_result)
        await answered
    return (time.perf_counter() - begun) / count * 1e6
