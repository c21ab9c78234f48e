"""Large reads of many connections: how long they take in one loop iteration."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvloop
from tests.unit.reactor.accept.test_acceptor import framed, serving

from hutong.reactor.frames import large_reads
from hutong.reactor.frames.framing import MAPPED_READ_BYTES
from hutong.reactor.frames.large_reads import ITERATION_US_MAX, RESUMED_MAX, LargeReads
from hutong.reactor.limits import ReactorLimits

MEBIBYTE = 1 << 20
READ_US = 600


class Reading:
    """A connection with data without end: it reads until it is paused."""

    def __init__(self, reads: LargeReads) -> None:
        self.reads = reads
        self.used_us = 0
        self.is_paused = False

    def read(self, used_us: int) -> None:
        self.used_us += used_us
        self.reads.add(used_us, self)

    def pause_large(self) -> None:
        self.is_paused = True

    def resume_large(self) -> None:
        self.is_paused = False


def test_what_is_read_past_the_bound_goes_on_in_turn() -> None:
    iterations: list[Callable[[], None]] = []
    reads = LargeReads(iterations.append)
    connections = [Reading(reads) for _ in range(3 * RESUMED_MAX)]
    for iteration in range(30):
        before = sum(one.used_us for one in connections)
        for one in connections:
            for _ in range(32):
                if not one.is_paused:
                    one.read(READ_US)
        used_us = sum(one.used_us for one in connections) - before
        # In the first iteration all have data at once, and nobody is paused yet.
        once_each = RESUMED_MAX if iteration else len(connections)
        assert used_us <= ITERATION_US_MAX + once_each * READ_US
        assert len(iterations) == 1, "one callback for all connections"
        iterations.pop()()
    assert min(one.used_us for one in connections) > READ_US, "each has its turn"


def test_little_is_never_paused() -> None:
    iterations: list[Callable[[], None]] = []
    reads = LargeReads(iterations.append)
    connection = Reading(reads)
    for _ in range(100):
        connection.read(ITERATION_US_MAX // 2)
        iterations.pop()()
    assert (connection.is_paused, reads.paused_total) == (False, 0)
    assert not iterations, "an idle acceptor has no callback"


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_many_small_requests_of_one_producer_leave_iterations_to_others(
    new_loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come by the buffer that all share, which libuv would fill 32 times in an iteration."""
    monkeypatch.setattr(large_reads, "ITERATION_US_MAX", 0)

    async def scenario() -> None:
        async with serving(ReactorLimits()) as server:
            reader, writer = await server.connect()
            requests = framed(bytes(1000)) * 4 * 1024
            writer.write(requests)
            assert await reader.readexactly(len(requests)) == requests
            assert server.acceptor._around.large_reads.paused_total > 4, "each read is one too many"

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_large_frames_arrive_whole_a_little_in_each_iteration(new_loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_reads, "ITERATION_US_MAX", 0)
    monkeypatch.setattr(large_reads, "RESUMED_MAX", 1)

    async def scenario() -> None:
        async with serving(ReactorLimits()) as server:
            size = 8 * MEBIBYTE
            clients = [await server.connect() for _ in range(4)]

            async def send(number: int) -> bytes:
                reader, writer = clients[number]
                writer.write(framed(bytes([ord("A") + number]) * size))
                return await reader.readexactly(4 + size)

            answers = await asyncio.gather(*map(send, range(4)))
            assert answers == [framed(bytes([ord("A") + number]) * size) for number in range(4)]
            reads = server.acceptor._around.large_reads
            assert reads.paused_total > 4 * 5 * MEBIBYTE // MAPPED_READ_BYTES, "each read of a map is one too many"

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())
