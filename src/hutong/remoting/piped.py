"""Remoting behind a pipeline of handlers: the codec of commands, and the endpoint as the tail of each pipeline.

Strategy: the endpoint is the same with and without a pipeline. Here its peer decodes each frame that the endpoint made,
and sends the command through the handlers. So a connection without a pipeline pays nothing for them, and one with a
pipeline pays one decoding and one encoding more for each command that is sent.

Knows nothing of what a command means.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from hutong.reactor.connections.channel import HELD
from hutong.reactor.connections.handler import (
    Handler,
    Peer,
    do_nothing,
    drop_buffers,
    ignore_change,
    nothing_unsent,
)
from hutong.reactor.frames.framing import Framing, length_prefixed
from hutong.reactor.front.piped import MakePipeline, PipelineConnections, checked_make
from hutong.reactor.pipeline.machine import ConnectionPipeline, PipelineHandler, PipelineLink
from hutong.remoting.endpoint import Endpoint
from hutong.wire.buffer import Buffer
from hutong.wire.rocketmq.command import Command, decode, encode

_LENGTH: Final = struct.Struct(">I")


class CommandCodec(PipelineHandler):
    """Commands on the program's side, their frames without the length on the other: it follows `LengthFrames`."""

    def inbound(self, value: Any, link: PipelineLink) -> None:
        link.pass_inbound(decode(value))

    def outbound(self, value: Any, link: PipelineLink) -> None:
        # A handler behind it sent something else. By its class: `isinstance` of a msgspec type takes 100 ns.
        if value.__class__ is not Command:
            raise TypeError(f"commands are sent behind a CommandCodec, not a {type(value).__name__}")
        head, *body = encode(value)
        # The length is the framing's.
        link.pass_outbound(b"".join((memoryview(head)[_LENGTH.size :], *body)))


class EndpointTail:
    """Gives the commands of one connection to its endpoint, and what the endpoint sends to the handlers."""

    _pipeline: ConnectionPipeline
    _connection: Peer
    _peer: Peer

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._held: deque[Command] = deque()  # not begun yet, in order: handlers passed them on while it was held

    def opened(self, pipeline: ConnectionPipeline, peer: Peer) -> None:
        self._pipeline, self._connection = pipeline, peer
        # The endpoint's own peer, of the same number and owner, whose output passes the handlers.
        piped = self._peer = Peer(peer.id, peer.address, peer.port, peer.framing)
        piped.owner = peer.owner
        piped.certificate, piped.certificate_der = peer.certificate, peer.certificate_der
        piped.push, piped.send = self._send, self._send_now
        piped.release, piped.close = partial(pipeline.release, self), pipeline.close
        piped.unsent_bytes = peer.unsent_bytes
        self._endpoint.connection_opened(piped)
        peer.is_duplex = piped.is_duplex

    def take_value(self, value: Any) -> None:
        # Loud: bytes mean that the codec is missing, anything else that a handler passes on its own values.
        if value.__class__ is not Command:
            hint = "put a CommandCodec() behind a LengthFrames() in the pipeline"
            raise TypeError(f"the endpoint takes commands, not a {type(value).__name__}: {hint}")
        # Nothing overtakes a request that is held.
        if self._held or not self._begin(value):
            self._held.append(value)

    def resume(self) -> None:
        while self._held and not self._pipeline.is_closing and self._begin(self._held[0]):
            self._held.popleft()

    def sending_changed(self, is_paused: bool) -> None:
        self._peer.sending_changed(is_paused)

    def ended(self) -> None:
        peer = self._peer
        # As the reactor's own peer: the endpoint's users may keep it for long.
        peer.release = peer.close = do_nothing
        peer.push = peer.send = drop_buffers
        peer.sending_changed, peer.unsent_bytes = ignore_change, nothing_unsent
        peer.close_reason = self._connection.close_reason
        self._held.clear()
        self._endpoint.connection_closed(peer)

    def _begin(self, command: Command) -> bool:
        """Give the command to the endpoint; False where that holds it, and the pipeline with it."""
        response = self._endpoint.request_received(command, self._peer)
        if response is HELD:
            self._pipeline.hold(self)
            return False
        if isinstance(response, list):
            self._send(response)
        return True

    def _send_now(self, frames: list[Buffer]) -> None:
        self._send(frames)
        # What the handlers sent was pushed: an empty send writes it without waiting for the end of the iteration.
        self._connection.send([])

    def _send(self, frames: list[Buffer]) -> None:
        try:
            for frame in _split_frames(frames):
                self._pipeline.send(decode(frame))
        # The caller may be any: a processor, a timer, the program that asks. None of them made the handler.
        except Exception as error:  # noqa: BLE001  # the supervisor of outbound handlers: a fault ends one connection
            context = {"message": f"the pipeline of {self._connection} failed", "exception": error}
            self._endpoint.loop.call_exception_handler(context)
            self._connection.close()


def handler_of(endpoint: Endpoint, make: MakePipeline | None) -> tuple[Handler, Callable[[int], Framing]]:
    """The reactor's handler and framings for an endpoint, directly or behind the pipelines that `make` makes."""
    if make is None:
        return endpoint, length_prefixed()
    connections = PipelineConnections(checked_make(make), endpoint, lambda: EndpointTail(endpoint))
    return connections, connections.framing


def _split_frames(buffers: list[Buffer]) -> Iterator[Buffer]:
    """The frames that begin in these buffers, without their lengths."""
    data = buffers[0] if len(buffers) == 1 else b"".join(buffers)
    at = 0
    # Nearly always one; a processor may return several whole frames together.
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        yield data[at : at + length]
        at += length
