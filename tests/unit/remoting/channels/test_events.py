"""Channel events: what is told, in which order, and what happens when nobody keeps up."""

import asyncio
from typing import Any

from tests.unit.remoting.test_remoting import ECHO, on_both_loops, pair

from hutong.reactor.limits import ReactorLimits
from hutong.remoting.channels.events import ChannelEvent, ChannelEventKind, ChannelEvents
from hutong.remoting.limits import RemotingLimits

CONNECT, IDLE = ChannelEventKind.CONNECT, ChannelEventKind.IDLE
ACTIVE, EXCEPTION, CLOSE = ChannelEventKind.ACTIVE, ChannelEventKind.EXCEPTION, ChannelEventKind.CLOSE


class Heard:
    def __init__(self) -> None:
        self.kinds: list[ChannelEventKind] = []
        self.closed = asyncio.Event()

    def __call__(self, event: ChannelEvent) -> None:
        self.kinds.append(event.kind)
        if event.kind is CLOSE:
            self.closed.set()


@on_both_loops
async def test_both_sides_hear_of_a_connection() -> None:
    async with pair() as it:
        here, there = Heard(), Heard()
        it.client.add_listener(here)
        it.server.add_listener(there)
        await it.invoke(ECHO)
        it.client.channels[0].close()
        await here.closed.wait()
        await there.closed.wait()
        assert here.kinds == [CONNECT, ACTIVE, CLOSE]
        assert there.kinds == [CONNECT, ACTIVE, CLOSE]


@on_both_loops
async def test_an_idle_connection_is_told_and_closed() -> None:
    async with pair(server_limits=RemotingLimits(reactor=ReactorLimits(idle_ms_max=1_000))) as it:
        heard = Heard()
        it.server.add_listener(heard)
        await it.invoke(ECHO)
        it.pass_ms(1_100)
        await heard.closed.wait()
        assert heard.kinds == [CONNECT, ACTIVE, IDLE, CLOSE]


@on_both_loops
async def test_a_fault_is_told() -> None:
    async with pair() as it:
        heard = Heard()
        it.server.add_listener(heard)
        channel = await it.client.connect(it.address)
        channel.peer.push([b"\x00\x00\x00\x05\x07hell"])
        await heard.closed.wait()
        assert heard.kinds == [CONNECT, ACTIVE, EXCEPTION, CLOSE]


async def test_too_many_events_are_dropped_and_a_listener_that_fails_harms_nobody() -> None:
    loop = asyncio.get_running_loop()
    told: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: told.append(context))
    events, heard = ChannelEvents(loop, 3), Heard()
    channel: Any = type("Anything", (), {"address": "somewhere"})()
    events.report(CONNECT, channel)
    assert len(events) == 0

    def fail(_: ChannelEvent) -> None:
        raise ZeroDivisionError

    events.listeners += [fail, heard]
    for _ in range(5):
        events.report(CONNECT, channel)
    assert events.dropped_total == 2
    await asyncio.sleep(0)
    assert heard.kinds == [CONNECT] * 3
    assert len(told) == 3
    events.report(CLOSE, channel)
    await heard.closed.wait()
