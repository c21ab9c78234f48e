"""The routes to the event bus of the node.

Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from hutong.bus.envelope.headers import Headers
from hutong.bus.errors import BusClosed, ReplyError
from hutong.bus.options import DeliveryOptions
from hutong.console.bus.tap import Tap, shown_body
from hutong.console.limits import (
    ADDRESSES_SHOWN_MAX,
    BUS_HEADERS_MAX,
    BUS_TIMEOUT_MS_MAX,
    TAP_INTERVAL_MS,
    TAPS_MAX,
)
from hutong.console.rights import READ_NODE, USE_BUS, check_right
from hutong.console.routes import ConsoleRoute
from hutong.console.streams import Rounds, event, streamed
from hutong.foundation.errors import LimitExceeded, UsageError
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from hutong.bus.bus import EventBus
    from hutong.console.desk import ConsoleDesk
    from hutong.web.answers import StreamedAnswer
    from hutong.web.requests import WebRequest

KINDS: Final = ("send", "publish", "request")


class BusMessageBody(msgspec.Struct, frozen=True):
    """A message from the page. `body` is JSON."""

    address: str
    kind: str = "send"
    body: Any = None
    headers: list[tuple[str, str]] = []
    timeout_ms: int = 10_000


class BusPages:
    """The routes of `/api/bus`."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk
        self._taps = 0

    def routes(self) -> list[ConsoleRoute]:
        return [
            ConsoleRoute("GET", "/api/bus", self.show),
            ConsoleRoute("GET", "/api/bus/tap", self.tap),
            ConsoleRoute("POST", "/api/bus/messages", self.send, changes="bus.message"),
        ]

    async def show(self, request: WebRequest) -> WebAnswer:
        """All addresses, and the other nodes of the bus."""
        await check_right(self._desk, request, READ_NODE)
        node = self._desk.node
        bus = None if node is None else node.bus()
        if node is None or bus is None:
            return json({"has_bus": False, "addresses": [], "nodes": [], "truncated": False})
        addresses = bus.addresses()
        return json(
            {
                "has_bus": True,
                **bus.figures._asdict(),
                "addresses": [each._asdict() for each in addresses[:ADDRESSES_SHOWN_MAX]],
                "address_count": len(addresses),
                "nodes": [each._asdict() for each in node.bus_nodes()],
                "truncated": len(addresses) > ADDRESSES_SHOWN_MAX,
            }
        )

    async def tap(self, request: WebRequest) -> StreamedAnswer:
        """Stream what passes at an address, or at all that begin with the text before a `*`."""
        await check_right(self._desk, request, USE_BUS)
        bus = self._bus()
        pattern = request.query.get("address", "")
        if not pattern:
            raise WebRefusal(400, "Name an address, or the beginning of some with a * behind it.")
        if self._taps >= TAPS_MAX:
            raise WebRefusal(429, f"{TAPS_MAX} taps are open already. Close one of them.")
        tap = Tap(pattern)
        bus.add_outbound_interceptor(tap.outbound)
        bus.add_inbound_interceptor(tap.inbound)
        self._taps += 1

        async def make() -> list[bytes]:
            messages, seen_total = tap.take()
            return [event("messages", {"messages": messages, "seen_total": seen_total})] if messages else []

        def close() -> None:
            self._taps -= 1
            bus.remove_outbound_interceptor(tap.outbound)
            bus.remove_inbound_interceptor(tap.inbound)

        return streamed(Rounds(make, self._desk.pause, TAP_INTERVAL_MS, close))

    async def send(self, request: WebRequest) -> WebAnswer:
        """Send, publish or request. Raises WebRefusal for a message that the bus does not take."""
        await check_right(self._desk, request, USE_BUS)
        bus, body = self._bus(), request.json(BusMessageBody)
        if body.kind not in KINDS:
            raise WebRefusal(400, f"{body.kind[:50]!r} is no kind of message: choose from {', '.join(KINDS)}.")
        if len(body.headers) > BUS_HEADERS_MAX:
            raise WebRefusal(400, f"A message from here has at most {BUS_HEADERS_MAX} headers.")
        if not 1 <= body.timeout_ms <= BUS_TIMEOUT_MS_MAX:
            raise WebRefusal(400, f"timeout_ms is a number from 1 to {BUS_TIMEOUT_MS_MAX}.")
        began_ms = self._desk.clock.monotonic_ms()
        try:
            outcome = await _carry(bus, body)
        except (TypeError, ValueError, UsageError, LimitExceeded, BusClosed) as error:
            raise WebRefusal(400, f"The bus does not take it: {error}") from None
        took_ms = self._desk.clock.monotonic_ms() - began_ms
        await self._desk.record(request, "bus.message", body.address, after={"kind": body.kind, "body": body.body})
        return json({**outcome, "took_ms": took_ms})

    def _bus(self) -> EventBus:
        node = self._desk.node
        bus = None if node is None else node.bus()
        if bus is None:
            raise WebRefusal(404, "This console has no event bus: its node runs none.")
        return bus


async def _carry(bus: EventBus, given: BusMessageBody) -> dict[str, Any]:
    options = DeliveryOptions(given.timeout_ms / 1_000, Headers(given.headers))
    if given.kind == "request":
        try:
            reply = await bus.request(given.address, given.body, options)
        except ReplyError as error:
            failure = {"type": error.failure_type.name, "code": error.failure_code, "message": error.message}
            return {"failure": failure}
        body, is_cut = shown_body(reply.body)
        return {"reply": {"body": body, "is_cut": is_cut, "headers": list(reply.header_pairs)}}
    if given.kind == "publish":
        stored = await bus.publish(given.address, given.body, options)
        return {} if stored is None else {"stored": {"partition": stored.partition, "offset": stored.offset}}
    bus.send(given.address, given.body, options)
    return {}
