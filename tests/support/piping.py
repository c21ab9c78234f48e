"""Runs the tests of remoting a second time behind pipelines of handlers: nothing may be different."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import pytest

from hutong import reactor, remoting
from hutong.foundation.errors import ProtocolError
from hutong.reactor.connections.channel import HELD, Response
from hutong.reactor.connections.handler import Peer
from hutong.reactor.frames.framing import LengthPrefixedFraming
from hutong.reactor.front.piped import MakePipeline
from hutong.remoting import Command
from hutong.remoting.piped import EndpointTail
from hutong.wire.rocketmq.command import IS_RESPONSE, decode, encode

ECHO: Final = 10
FRAME_BYTES: Final = 2_000


def frames() -> list[reactor.PipelineHandler]:
    """The least pipeline of remoting: framing and codec."""
    return [reactor.LengthFrames(remoting.FRAME_BYTES_MAX), remoting.CommandCodec()]


class Piping:
    """The pipeline that both sides have at present."""

    make: MakePipeline | None = None


@pytest.fixture(params=[None, frames], ids=["direct", "piped"])
def piping(request: pytest.FixtureRequest) -> Iterator[None]:
    Piping.make = None if request.param is None else staticmethod(request.param)
    yield
    Piping.make = None


class Commands:
    """An endpoint that keeps commands, and holds every third until it is asked again."""

    def __init__(self, holds: bool = False) -> None:
        self.loop: Any = None
        self.commands: list[Command] = []
        self.closed = 0
        self._holds = holds
        self._asked = 0

    def connection_opened(self, peer: Peer) -> None:
        peer.is_duplex = True

    def connection_closed(self, peer: Peer) -> None:
        self.closed += 1

    def request_received(self, command: Command, peer: Peer) -> Response:
        self._asked += 1
        if self._holds and self._asked % 3 == 0:
            return HELD
        self.commands.append(command)
        return encode(Command(0, command.opaque, IS_RESPONSE)) if command.code == ECHO else None


def read_piped(data: bytes, bounds: list[int], holds: bool = False) -> tuple[list[Command], bool, bytes]:
    endpoint: Any = Commands(holds)
    tail = EndpointTail(endpoint)
    pipeline = reactor.ConnectionPipeline([reactor.LengthFrames(FRAME_BYTES), remoting.CommandCodec()], 0, tail)
    peer = Peer(1, "127.0.0.1", 9, LengthPrefixedFraming(FRAME_BYTES))
    tail.opened(pipeline, peer)
    pipeline.open(0, peer)
    sent = []
    for start, stop in pairwise(bounds):
        pipeline.receive_data(data[start:stop], 0)
        while pipeline.is_stalled:
            pipeline.release(tail)
            pipeline.resume(0)
        sent += pipeline.data_to_send()
        pipeline.check_invariants()
    pipeline.end(0)
    tail.ended()
    assert endpoint.closed == 1
    return endpoint.commands, pipeline.failure is None, b"".join(map(bytes, sent))


def read_directly(data: bytes) -> tuple[list[Command], bool, bytes]:
    endpoint, framing, sent = Commands(), LengthPrefixedFraming(FRAME_BYTES), bytearray()
    peer = Peer(1, "127.0.0.1", 9, framing)
    try:
        for frame in framing.receive_data(data):
            answer = endpoint.request_received(decode(frame), peer)
            sent += b"".join(answer) if isinstance(answer, list) else b""
    except ProtocolError:
        return endpoint.commands, False, bytes(sent)
    return endpoint.commands, framing.failure is None, bytes(sent)
