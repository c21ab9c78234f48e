"""Network faults in front of a broker: refused connections, late answers, lost answers, errors instead of answers.

Strategy: while a fault is armed, every request is inspected before the broker's handler sees it; requests without a
fault pass untouched. A client is known by the name in its first request. A late answer keeps its order, so the answers
after it are late too, as on a slow network. Requests on the fast path are never decoded, so that path is closed while a
fault is armed.

Everything here happens on the node's loop.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Final

from hutong.foundation.errors import ProtocolError
from hutong.reactor.accept.gate import Cut
from hutong.reactor.connections.channel import HELD, Held, PendingResponse, Response
from hutong.reactor.connections.handler import Handler, Peer
from hutong.testing.faults.refusals import refusal
from hutong.testing.observe.answers import Buffers, when_answered
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.headers import RequestHeader, decode_request_header

FAULTS_MAX: Final = 1000


class FaultKind(Enum):
    """The effect on a request."""

    REFUSE = 0  # it is not carried out, the answer is an error
    LOSE = 1  # it is carried out, and the connection ends in place of the answer
    DELAY = 2  # it is carried out, and answered later


@dataclass(slots=True, eq=False)
class NetworkFault:
    """One fault, for some APIs (None: all) and one client (None: all), `times` times (None: until it is removed)."""

    kind: FaultKind
    api_keys: frozenset[int] | None = None
    client_id: str | None = None
    times: int | None = None
    code: int = 0
    delay_ms: int = 0
    hits: int = 0

    def meets(self, header: RequestHeader) -> bool:
        return (
            (self.times is None or self.hits < self.times)
            and (self.api_keys is None or header.api_key in self.api_keys)
            and (self.client_id is None or header.client_id == self.client_id)
        )


class NetworkFaults:
    """Admits connections and handles requests in front of a node. A restarted node gets the same object."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.is_refusing = False
        self.connections_refused = 0
        self._is_dead = False  # between the death of a node and its next life
        self._loop = loop
        self._faults: list[NetworkFault] = []
        self._clients: dict[Peer, str | None] = {}  # "" until its first request names it
        self._late: dict[int, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}
        self._numbers = count()
        self._handler: Handler
        self._cut: Cut

    @property
    def handler(self) -> Handler:
        """The broker's handler, without faults."""
        return self._handler

    # -- the switches

    def add(self, fault: NetworkFault) -> None:
        """Raises ValueError beyond FAULTS_MAX."""
        if len(self._faults) >= FAULTS_MAX:
            raise ValueError(f"{FAULTS_MAX} faults are armed already")
        self._faults.append(fault)
        for peer in self._clients:
            peer.express = None  # requests on the fast path are not decoded, so no fault would meet them

    def remove(self, fault: NetworkFault) -> None:
        """Disarm a fault. Answers that it holds already are still late."""
        if fault in self._faults:
            self._faults.remove(fault)

    def heal(self) -> None:
        """Disarm all faults, and send the late answers now."""
        self.is_refusing = False
        self._faults.clear()
        self.send_late_answers()

    def send_late_answers(self) -> None:
        """Send the late answers."""
        late, self._late = self._late, {}
        for timer, send in late.values():
            timer.cancel()
            send()

    def drop(self, client_id: str | None) -> int:
        """Cut off all connections, or those of one client; how many there were."""
        return self._cut(lambda peer: client_id is None or self._clients.get(peer) == client_id)

    def end_life(self) -> None:
        """Cut off all connections, and admit none until the next life."""
        self._is_dead = True
        self.drop(None)

    def clients(self) -> list[str]:
        """Names of those connected that have given theirs."""
        return sorted({name for name in self._clients.values() if name})

    # -- admission

    def admits(self, address: str) -> bool:
        self.connections_refused += self.is_refusing
        return not (self.is_refusing or self._is_dead)

    def before(self, handler: Handler, cut: Cut) -> Handler:
        self._handler, self._cut = handler, cut
        self._is_dead = False
        return self

    # -- the handler

    def connection_opened(self, peer: Peer) -> None:
        self._clients[peer] = ""
        self._handler.connection_opened(peer)

    def connection_closed(self, peer: Peer) -> None:
        self._clients.pop(peer, None)
        self._handler.connection_closed(peer)

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        # Without faults only the first request is decoded, for the name of its client.
        if not self._faults and self._clients[peer] != "":
            return self._handler.request_received(frame, peer)
        try:
            header, body_at = decode_request_header(frame)
        except ProtocolError:
            return self._handler.request_received(frame, peer)  # which answers the bad request
        self._clients[peer] = header.client_id
        fault = next((fault for fault in self._faults if fault.meets(header)), None)
        if fault is None:
            return self._passed(frame, peer)
        if fault.kind is FaultKind.REFUSE:
            fault.hits += 1
            refused = refusal(frame, header, body_at, fault.code)
            return _closing() if refused is None else refused
        answer = self._passed(frame, peer)
        if isinstance(answer, Held):
            return HELD  # the reactor hands the same request in again, and that is when the fault counts
        fault.hits += 1
        return _lost(answer) if fault.kind is FaultKind.LOSE else self._delayed(answer, fault.delay_ms)

    def _passed(self, frame: Buffer, peer: Peer) -> Response:
        answer = self._handler.request_received(frame, peer)
        if self._faults:  # the handler may just have opened the fast path
            peer.express = None
        return answer

    def _delayed(self, answer: Buffers | PendingResponse, delay_ms: int) -> PendingResponse:
        outer = PendingResponse()
        number = next(self._numbers)

        def later(buffers: Buffers) -> None:
            def send() -> None:
                self._late.pop(number, None)
                outer.complete(buffers)

            self._late[number] = self._loop.call_later(delay_ms / 1000, send), send

        when_answered(answer, later, outer.close_connection)
        return outer


def _lost(answer: Buffers | PendingResponse) -> PendingResponse:
    outer = PendingResponse()
    when_answered(answer, lambda _: outer.close_connection(), outer.close_connection)
    return outer


def _closing() -> PendingResponse:
    ending = PendingResponse()
    ending.close_connection()
    return ending
