"""Open connections: they end in the order in which they began."""

import asyncio
from random import Random
from typing import Any

from hutong.foundation.clock import ManualClock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.connections.open_connections import OpenConnections
from hutong.reactor.figures import CloseReason

COUNT = 50


class Noting:
    """Stands for a connection; notes in `ended` how it ends."""

    def __init__(self, ended: list["Noting"]) -> None:
        self.ended = ended
        self.peer = self

    def drain(self) -> None:
        self.ended.append(self)

    def abort(self, _: CloseReason) -> None:
        self.ended.append(self)


async def test_they_end_in_the_order_in_which_they_began() -> None:
    ended: list[Noting] = []
    connections: list[Any] = [Noting(ended) for _ in range(COUNT)]
    Random(1).shuffle(connections)
    clock = ManualClock()
    wheel = TimerWheel(clock.monotonic_ms())
    open_connections = OpenConnections(clock, wheel)
    for connection in connections:
        open_connections.add(connection)
    assert open_connections.cut(lambda _: True) == COUNT
    assert ended == connections
    ended.clear()
    drained = asyncio.ensure_future(open_connections.drain(1_000))
    await asyncio.sleep(0)
    assert ended == connections
    for connection in connections:
        open_connections.discard(connection)
    await drained
