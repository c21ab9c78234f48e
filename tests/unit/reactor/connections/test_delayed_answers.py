"""Answers of the fast path where several connections are busy: later, but in order, whole, and never lost."""

import gc
import weakref
from collections.abc import Callable
from typing import Any, cast

import pytest

from hutong.foundation.clock import ManualClock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.connections.channel import Response
from hutong.reactor.connections.handler import Peer, RequestBatch
from hutong.reactor.connections.protocol import DELAYED_MAX, AcceptorServices, ConnectionProtocol
from hutong.reactor.figures import CloseReason, ReactorFigures
from hutong.reactor.frames.framing import LengthPrefixedFraming
from hutong.reactor.limits import ReactorLimits
from hutong.wire.buffer import Buffer


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


class FakeLoop:
    """Notes what is to run at the end of the iteration."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.faults: list[str] = []

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.faults.append(context["message"])

    def call_soon(self, callback: Callable[[], None], *_: object) -> None:
        self.soon.append(callback)

    def end_iteration(self) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()


class FakeTransport:
    """Notes what is written, and whether it was closed before."""

    def __init__(self) -> None:
        self.sent = b""
        self.is_closed = False

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def write(self, data: Buffer) -> None:
        assert not self.is_closed
        self.sent += bytes(data)

    def writelines(self, buffers: list[Buffer]) -> None:
        self.write(b"".join(buffers))

    def close(self) -> None:
        self.is_closed = True

    abort = pause_reading = resume_reading = close


class Echo:
    """Echoes frames; those that begin with x on the fast path."""

    def connection_opened(self, peer: Peer) -> None:
        peer.express = self

    def connection_closed(self, peer: Peer) -> None: ...

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        return [framed(bytes(frame))]

    def take_requests(self, data: Buffer, requests_max: int) -> RequestBatch | None:
        taken = bytes(data)
        return (1, len(taken), [taken]) if taken[4:5] == b"x" else None


class Stage:
    def __init__(self, connections: int) -> None:
        self.loop = FakeLoop()
        clock = ManualClock()
        around = AcceptorServices(
            loop=cast(Any, self.loop),
            handler=Echo(),
            framing=LengthPrefixedFraming,
            clock=clock,
            wheel=TimerWheel(clock.monotonic_ms()),
            limits=ReactorLimits(),
            figures=ReactorFigures(),
            admit=lambda _: 1,
            left=lambda _: None,
            shed=lambda _: None,
            check_memory=lambda: None,
        )
        self.around = around
        self.transports = [FakeTransport() for _ in range(connections)]
        self.connections = [ConnectionProtocol(around) for _ in range(connections)]
        for connection, transport in zip(self.connections, self.transports, strict=True):
            connection.connection_made(cast(Any, transport))

    def receive(self, index: int, *payloads: bytes) -> None:
        data = b"".join(map(framed, payloads))
        self.connections[index].get_buffer(-1)[: len(data)] = data
        self.connections[index].buffer_updated(len(data))

    def sent(self, index: int) -> bytes:
        return self.transports[index].sent


def test_a_connection_alone_is_answered_at_once_from_its_second_request_on() -> None:
    stage = Stage(1)
    stage.receive(0, b"x1")
    stage.loop.end_iteration()
    for number in (b"x2", b"x3"):
        stage.receive(0, number)
        assert stage.sent(0).endswith(framed(number))
        assert not stage.loop.soon


def test_several_connections_are_answered_together_at_the_end_of_the_iteration() -> None:
    stage = Stage(3)
    for index in range(3):
        stage.receive(index, b"x%d" % index)
    assert [stage.sent(index) for index in range(3)] == [b"", b"", b""]
    assert len(stage.loop.soon) == 1
    stage.loop.end_iteration()
    assert [stage.sent(index) for index in range(3)] == [framed(b"x%d" % index) for index in range(3)]
    assert not stage.loop.soon


def test_no_answer_waits_for_more_than_so_many_others() -> None:
    stage = Stage(DELAYED_MAX + 1)
    for index in range(DELAYED_MAX + 1):
        stage.receive(index, b"x")
    assert stage.sent(DELAYED_MAX - 1) == framed(b"x")
    assert stage.sent(DELAYED_MAX) == b""
    stage.loop.end_iteration()
    assert stage.sent(DELAYED_MAX) == framed(b"x")


@pytest.mark.parametrize("second", [b"x2", b"other"], ids=["on the fast path", "by the handler"])
def test_an_answer_is_never_overtaken_by_the_next_of_its_connection(second: bytes) -> None:
    stage = Stage(2)
    stage.receive(0, b"x0")
    stage.receive(1, b"x1")
    stage.receive(0, second)
    stage.receive(0, b"x3")
    stage.loop.end_iteration()
    assert stage.sent(0) == framed(b"x0") + framed(second) + framed(b"x3")
    assert stage.sent(1) == framed(b"x1")


def test_what_a_connection_sends_by_itself_comes_after_the_answer_that_waits() -> None:
    stage = Stage(2)
    stage.receive(0, b"x0")
    stage.connections[0].peer.send([b"pushed"])
    assert stage.sent(0) == framed(b"x0") + b"pushed"
    stage.loop.end_iteration()
    assert stage.sent(0) == framed(b"x0") + b"pushed"


def test_an_answer_that_waits_is_sent_before_the_connection_closes() -> None:
    stage = Stage(2)
    stage.receive(0, b"x0")
    stage.connections[0].eof_received()
    assert (stage.sent(0), stage.transports[0].is_closed) == (framed(b"x0"), True)
    stage.receive(1, b"x1")
    stage.connections[1].get_buffer(-1)[:4] = b"\xff\xff\xff\xff"  # a size that no frame has
    stage.connections[1].buffer_updated(4)
    assert (stage.sent(1), stage.transports[1].is_closed) == (framed(b"x1"), True)
    stage.loop.end_iteration()


@pytest.mark.parametrize("end", ["lost", "aborted"])
def test_an_answer_that_waits_goes_with_a_connection_that_is_cut_off(end: str) -> None:
    stage = Stage(2)
    stage.receive(0, b"x0")
    stage.receive(1, b"x1")
    if end == "lost":
        stage.connections[0].connection_lost(None)
    else:
        stage.connections[0].abort(CloseReason.FAULT)
    stage.loop.end_iteration()
    assert (stage.sent(0), stage.sent(1)) == (b"", framed(b"x1"))


def test_a_fault_in_one_write_leaves_the_other_answers() -> None:
    stage = Stage(2)
    stage.receive(0, b"x0")
    stage.receive(1, b"x1")
    stage.transports[0].write = lambda data: 1 // 0  # type: ignore[method-assign,assignment]
    stage.loop.end_iteration()
    assert stage.loop.faults == ["fault while serving peer 1 at 127.0.0.1:1"]
    assert stage.sent(1) == framed(b"x1")


def test_a_connection_that_has_ended_is_kept_by_nobody() -> None:
    stage = Stage(1)
    stage.receive(0, b"x0")
    connection = stage.connections.pop()
    connection.peer.session = session = Echo()
    left = weakref.ref(session)
    connection.connection_lost(None)
    stage.loop.end_iteration()
    del connection, session
    gc.collect()
    assert left() is None
