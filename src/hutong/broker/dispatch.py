"""From a frame to a handler and back: decode, call, encode.

Strategy: one route per (API, version), found by the first four bytes of the frame; a route holds the compiled decoder
and encoder, so that nothing is looked up twice. The set of handlers is the one registry: it also feeds ApiVersions.

Knows nothing of sockets: the reactor gives frames and takes buffers. Raising ProtocolError closes the connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.context import Later, RequestContext
from hutong.broker.kafka import HANDLERS, k00_produce, k01_fetch, k18_api_versions
from hutong.broker.produce_lane import lane_for
from hutong.broker.session import Session
from hutong.foundation.errors import ProtocolError
from hutong.reactor.channel import HELD, Held
from hutong.reactor.connection import Pending
from hutong.security.principals import ANONYMOUS, Principal
from hutong.wire.kafka import codecs
from hutong.wire.kafka.headers import RequestHeader, decode_request_header, encode_response_frame
from hutong.wire.kafka.produce_frame import encode_produce_response_frame
from hutong.wire.kafka.registry import APIS

if TYPE_CHECKING:
    from hutong.broker.broker import Broker
    from hutong.broker.listeners import Listener
    from hutong.reactor.connection import Peer, Response
    from hutong.wire.buffer import Buffer

Handle = Callable[[Any, RequestContext], Any]
Encode = Callable[[int, Any], "list[Buffer]"]  # (correlation id, response) to a frame
_API_VERSIONS: Final = k18_api_versions.API_KEY
_PRODUCE: Final = k00_produce.API_KEY
_FETCH: Final = k01_fetch.API_KEY
TELL_INTERVAL_MS: Final = 1_000
_log = logging.getLogger("hutong.kafka")


def anonymous(peer: Peer) -> Principal:
    """Who a client is that has shown nothing."""
    return ANONYMOUS


OTHER_FRAME_BYTES_MAX: Final = 8 * 1024 * 1024
"""Only Produce carries data; in any other request a byte can become an object many times its size."""


OBJECT_BYTES_PER_BYTE: Final = 8
"""What a byte of a request takes as objects, where they are kept (measured for Fetch with 500,000 partitions)."""


@dataclass(frozen=True, slots=True)
class Route:
    """What one (API, version) needs. `decode` takes (frame, offset of the body)."""

    decode: Callable[[Any, int], Any]
    handle: Handle
    encode: Encode


class Dispatch:
    """The reactor's handler for the Kafka connections of one listener.

    `listener` is what connections that open from now on are told. `requests_total` counts by API, for all listeners.
    """

    def __init__(
        self,
        broker: Broker,
        listener: Listener,
        requests_total: dict[int, int] | None = None,
        handlers: Mapping[int, Handle] = HANDLERS,
        identify: Callable[[Peer], Principal] = anonymous,
    ) -> None:
        """`identify` says who a client is when its connection opens, and raises ProtocolError to have it closed."""
        self._broker = broker
        self.listener = listener
        self._meter = broker.meter
        self._handlers = handlers
        self._identify = identify
        self._routes: dict[int, Route] = {}
        self._told_at_ms = -TELL_INTERVAL_MS
        self._untold = 0
        self.requests_total = dict.fromkeys(handlers, 0) if requests_total is None else requests_total

    def connection_opened(self, peer: Peer) -> None:
        """Who the client is stays open until it says so, unless it has shown a certificate."""
        peer.session = Session(self.listener)
        try:
            peer.session.principal = self._identify(peer)
        except ProtocolError as error:
            self._tell(peer, error)
            peer.close()

    def connection_closed(self, peer: Peer) -> None:
        """What the connection was waiting for has ended with its owner."""
        self._broker.admissions.forget(peer)

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        """Handle one request; returns the response's buffers, a Pending one, or None where none is due."""
        try:
            return self._answer_metered(frame, peer) if self._meter.is_on else self._answer(frame, peer)
        except ProtocolError as error:
            self._tell(peer, error)
            raise

    def _answer(self, frame: Buffer, peer: Peer) -> Response:
        header, offset = decode_request_header(frame)
        api_key, api_version = header.api_key, header.api_version
        route = self._routes.get(api_key << 16 | api_version)
        if route is None:
            if api_key == _API_VERSIONS and api_version not in APIS[api_key].versions:
                return encode_response_frame(api_key, 0, header.correlation_id, k18_api_versions.unsupported_version())
            route = self._add_route(api_key, api_version)
        if len(frame) > OTHER_FRAME_BYTES_MAX and api_key != _PRODUCE:
            raise ProtocolError(f"a request of {len(frame)} bytes with API key {api_key}")
        self.requests_total[api_key] += 1
        request = route.decode(frame, offset)
        context = RequestContext(api_version, header.client_id, peer, self._broker)
        answer = route.handle(request, context)
        if api_key == _PRODUCE:
            peer.express = lane_for(frame, request, context, self.requests_total)
        if answer is None or answer is HELD:
            return answer
        if isinstance(answer, Later):
            return _pending(answer, route.encode, header.correlation_id, _parked_bytes(api_key, frame))
        return route.encode(header.correlation_id, answer)

    def _answer_metered(self, frame: Buffer, peer: Peer) -> Response:
        """The same while some client has a quota: what each request uses is noted, and who uses too much waits."""
        peer.express = None
        if self._meter.is_muted(peer):
            return HELD
        header, offset = decode_request_header(frame)
        api_key, api_version = header.api_key, header.api_version
        route = self._routes.get(api_key << 16 | api_version)
        if route is None:
            if api_key == _API_VERSIONS and api_version not in APIS[api_key].versions:
                return self._answer(frame, peer)
            route = self._add_route(api_key, api_version)
        if len(frame) > OTHER_FRAME_BYTES_MAX and api_key != _PRODUCE:
            raise ProtocolError(f"a request of {len(frame)} bytes with API key {api_key}")
        began_us = self._broker.clock.monotonic_us()
        request = route.decode(frame, offset)
        if api_key == _FETCH:
            self._meter.limit_fetch(request, header.client_id)
        answer = route.handle(request, RequestContext(api_version, header.client_id, peer, self._broker))
        if isinstance(answer, Held):
            return answer
        self.requests_total[api_key] += 1
        spent_us = self._broker.clock.monotonic_us() - began_us
        finish = partial(self._finish_metered, route, header, peer, len(frame), spent_us)
        if not isinstance(answer, Later):
            return finish(answer)
        pending = Pending(_parked_bytes(api_key, frame))
        answer.then(lambda response: pending.complete(finish(response)))
        return pending

    def _finish_metered(
        self, route: Route, header: RequestHeader, peer: Peer, received_bytes: int, spent_us: int, answer: Any
    ) -> list[Buffer] | None:
        """The answer with its throttle time; the peer is muted for that long."""
        encoded = None if answer is None else route.encode(header.correlation_id, answer)
        sent_bytes = sum(map(len, encoded or ()))
        wait_ms = self._meter.throttle_ms(header.api_key, header.client_id, received_bytes, sent_bytes, spent_us)
        if not wait_ms:
            return encoded
        self._meter.mute(peer, wait_ms)
        if not hasattr(answer, "throttle_time_ms"):
            return encoded
        answer.throttle_time_ms = max(wait_ms, answer.throttle_time_ms)
        return route.encode(header.correlation_id, answer)

    def _tell(self, peer: Peer, error: ProtocolError) -> None:
        """One line in the log for a connection that is closed for this, and not more than one in each interval."""
        now_ms = self._broker.clock.monotonic_ms()
        if now_ms - self._told_at_ms < TELL_INTERVAL_MS:
            self._untold += 1
            return
        _log.warning("closing the connection of %s: %s (%d more like it before)", peer, error, self._untold)
        self._told_at_ms, self._untold = now_ms, 0

    def _add_route(self, api_key: int, api_version: int) -> Route:
        handle = self._handlers.get(api_key)
        if handle is None:
            raise ProtocolError(f"API key {api_key} is not supported")
        if api_version not in APIS[api_key].versions:
            raise ProtocolError(f"version {api_version} of API key {api_key} is not supported")
        encode: Encode = (
            partial(encode_produce_response_frame, api_version)
            if api_key == _PRODUCE
            else partial(encode_response_frame, api_key, api_version)
        )
        route = Route(codecs.request_decoder(api_key, api_version), handle, encode)
        self._routes[api_key << 16 | api_version] = route
        return route


def _parked_bytes(api_key: int, frame: Buffer) -> int:
    """What a request keeps until it is answered. What Produce brings is in the journal's cache, which has a bound."""
    return 0 if api_key == _PRODUCE else OBJECT_BYTES_PER_BYTE * len(frame)


def _pending(later: Later[Any], encode: Encode, correlation_id: int, parked_bytes: int) -> Pending:
    """The reactor's answer to come, completed by the handler's. It may be complete already: that is fine with both."""
    pending = Pending(parked_bytes)
    later.then(lambda response: pending.complete(encode(correlation_id, response)))
    return pending
