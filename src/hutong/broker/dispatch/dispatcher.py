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

from hutong.broker.apis import BROKER_APIS, FRAME_BYTES_MAX
from hutong.broker.dispatch.long_requests import LONG_FROM_BYTES, MANY_FROM_BYTES, LongRequest
from hutong.broker.dispatch.request_errors import ErrorReader, errors_in
from hutong.broker.dispatch.request_parts import has_many
from hutong.broker.dispatch.request_tracing import traced
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.log_limit import LogLimit
from hutong.broker.handling.session import ClientSession
from hutong.broker.kafka import HANDLERS, k00_produce, k01_fetch, k18_api_versions
from hutong.broker.produce.fast_path import fast_path_for
from hutong.foundation.errors import LimitExceeded, ProtocolError
from hutong.foundation.waiting.pending import Pending
from hutong.reactor.connections.channel import HELD, Held
from hutong.reactor.connections.connection import PendingResponse
from hutong.security.principals import ANONYMOUS, Principal
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.headers import RequestHeader, decode_request_header, encode_response_frame
from hutong.wire.kafka.produce_frame import encode_produce_response_frame
from hutong.wire.kafka.registry import APIS

if TYPE_CHECKING:
    from hutong.broker.broker import Broker
    from hutong.broker.dispatch.request_times import ApiTimes
    from hutong.broker.handling.listeners import Listener
    from hutong.reactor.connections.connection import Peer, Response
    from hutong.wire.buffer import Buffer

Handle = Callable[[Any, RequestContext[Any]], Any]
Encode = Callable[[int, Any], "list[Buffer]"]  # (correlation id, response) to a frame
_API_VERSIONS: Final = k18_api_versions.API_KEY
_PRODUCE: Final = k00_produce.API_KEY
_FETCH: Final = k01_fetch.API_KEY
_log = logging.getLogger("hutong.kafka")


def anonymous(peer: Peer) -> Principal:
    """The principal of a client that has not authenticated."""
    return ANONYMOUS


@dataclass(frozen=True, slots=True)
class Route:
    """The functions and bounds of one (API, version). `decode` takes (frame, offset of the body)."""

    decode: Callable[[Any, int], Any]
    handle: Handle
    encode: Encode
    frame_bytes_max: int
    times: ApiTimes
    errors_in: ErrorReader
    is_forwarded: bool = False  # where another node is the controller


class Dispatch:
    """The reactor's handler for the Kafka connections of one listener.

    `listener` is given to connections that open from now on. `requests_total` counts by API, for all listeners.
    """

    def __init__(
        self,
        broker: Broker,
        listener: Listener,
        requests_total: dict[int, int] | None = None,
        identify: Callable[[Peer], Principal] = anonymous,
    ) -> None:
        """`identify` returns the principal of a new connection, and raises ProtocolError to have it closed."""
        self._broker = broker
        self.listener = listener
        self._meter = broker.meter
        self._times = broker.request_times
        self.errors = broker.request_errors
        self._tracer = broker.tracer
        self._now_us = broker.clock.monotonic_us
        self._identify = identify
        self._routes: dict[int, Route] = {}
        self._log_limit = LogLimit()
        self.requests_total = dict.fromkeys(HANDLERS, 0) if requests_total is None else requests_total

    def connection_opened(self, peer: Peer) -> None:
        """Make the client's session. Its principal is anonymous unless it has shown a certificate."""
        session = ClientSession(peer.id, peer.address, peer.port, self.listener, peer.owner, peer.release)
        # The session lives as long as the connection; handlers keep it instead of the peer.
        peer.session = session
        peer.sending_changed = partial(self._sending_changed, peer)
        try:
            # A TLS certificate gives a name at once; SASL gives one later.
            session.principal = self._identify(peer)
        except ProtocolError as error:
            self._log_closing(peer, error)
            peer.close()

    def connection_closed(self, peer: Peer) -> None:
        """Forget the connection. Its waits have ended with its owner."""
        session: ClientSession = peer.session
        session.release = _nothing  # it referred to the connection, and waits may refer to the session
        self._broker.admissions.forget(session)
        self._broker.examinations.forget(session)
        self._broker.schema_gate.forget(session)
        self._broker.long_requests.forget(session)
        self._broker.read_actors.forget(session)

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        """Handle one request; returns the response's buffers, a PendingResponse, or None where none is due."""
        try:
            return self._received(frame, peer)
        except ProtocolError as error:
            self._log_closing(peer, error)
            raise
        except LimitExceeded as full:
            # A handler answers each bound that its request can meet (tests/unit/broker/kafka/test_every_bound.py). One
            # that it does not know ends this connection and nothing else.
            self._log_closing(peer, full)
            raise ProtocolError(str(full)) from full

    def _received(self, frame: Buffer, peer: Peer) -> Response:
        meter, now_us = self._meter, self._now_us
        if meter.is_on:
            # The fast path does not meter requests, so no client has one while any client is metered.
            peer.express = None
            if meter.is_muted(peer.session):
                # KIP-219: a client over its quota is answered, and its further requests wait unread.
                return HELD
        began_us = now_us()
        header, offset = decode_request_header(frame)
        api_key, api_version = header.api_key, header.api_version
        # Routes of one listener are made on first use, since each compiles a decoder and an encoder.
        route = self._routes.get(api_key << 16 | api_version) or self._add_route(api_key, api_version)
        # Before it is decoded: a byte of a request can become an object many times its size.
        if len(frame) > route.frame_bytes_max:
            raise ProtocolError(f"a request of {len(frame)} bytes with API key {api_key}")
        if route.is_forwarded and (forwarded := self._forwarded(frame, offset, route, header, peer, began_us)):
            return forwarded
        context = RequestContext(api_version, header.client_id, peer.session, self._broker)
        # A frame this short cannot name so many elements that handling them would hold the loop.
        if len(frame) <= MANY_FROM_BYTES:
            return self._handled(route.decode(frame, offset), frame, route, header, context, peer, began_us)
        request = None
        # The bytes of a Produce are mostly records, which decoding leaves as they are: only its elements make it long.
        is_long = len(frame) > LONG_FROM_BYTES and api_key != _PRODUCE
        if not is_long and not self._broker.long_requests.has(peer.session, frame):
            request = route.decode(frame, offset)
            if not has_many(request):
                return self._handled(request, frame, route, header, context, peer, began_us)
        return self._long(frame, offset, request, route, header, context, peer, began_us)

    def _handled(
        self,
        request: Any,
        frame: Buffer,
        route: Route,
        header: RequestHeader,
        context: RequestContext[Any],
        peer: Peer,
        began_us: int,
    ) -> Response:
        """Hand a decoded request to its handler, and encode the answer if it is there."""
        meter, session, api_key = self._meter, context.session, header.api_key
        if meter.is_on and api_key == _FETCH:
            # Kafka answers a fetch over its quota without records; here one may ask for no more than a window allows.
            meter.limit_fetch(request, session.principal.name, header.client_id)
        answer = route.handle(request, context)
        if isinstance(answer, Held):
            return answer  # it is handled again once it is released, and counts then
        self.requests_total[api_key] += 1
        session.times = route.times
        # From the second request on a producer that repeats itself skips decoding. Spans need decoded requests.
        if api_key == _PRODUCE and not meter.is_on and self._tracer is None:
            peer.express = fast_path_for(frame, request, context, self.requests_total)
        if isinstance(answer, Pending):
            return self._pending(answer, route, header, peer, len(frame), began_us)
        encoded = None if answer is None else self._encoded(answer, route, header)
        return self._note_times(encoded, answer, route, header, peer, len(frame), self._now_us() - began_us)

    def _forwarded(
        self, frame: Buffer, offset: int, route: Route, header: RequestHeader, peer: Peer, began_us: int
    ) -> PendingResponse | None:
        """Have the controller answer; None where that is this node, or the request is for this node alone."""
        from hutong.broker.dispatch.forwarding import forward, is_for_this_node  # late: a node alone never needs it

        cluster, session, times, now_us = self._broker.cluster, peer.session, route.times, self._now_us
        decode, encode = partial(route.decode, frame, offset), partial(route.encode, header.correlation_id)
        if cluster.is_controller or is_for_this_node(header.api_key, frame, decode):
            return None
        self.requests_total[header.api_key] += 1
        session.times = times
        parked_bytes = BROKER_APIS[header.api_key].parked_bytes(len(frame))
        pending = forward(frame, header.api_key, session, cluster, decode, encode, parked_bytes)

        def taken() -> None:
            remote_us = now_us() - began_us
            times.remote.record(remote_us)
            times.total.record(peer.queued_ms * 1000 + remote_us)

        pending.taken = taken
        return pending

    def _long(
        self,
        frame: Buffer,
        offset: int,
        request: Any,
        route: Route,
        header: RequestHeader,
        context: RequestContext[Any],
        peer: Peer,
        began_us: int,
    ) -> Response:
        """Handle a long request in parts and on workers; it is held meanwhile."""
        decode, encode = partial(route.decode, frame, offset), partial(route.encode, header.correlation_id)
        long = LongRequest(frame, request, header.api_key, decode, route.handle, encode, route.errors_in, context)
        done = self._broker.long_requests.advance(long)
        # A part is under way, or a worker: the connection gives the request again once it is released.
        if isinstance(done, Held):
            return HELD
        if done.encoded is None and header.api_key != _PRODUCE:
            # A request of one part: only its decoding was long.
            return self._handled(done.request, frame, route, header, context, peer, began_us)
        self.requests_total[header.api_key] += 1
        context.session.times = route.times
        # Errors were counted where the answer was encoded, on a worker, which may not touch the figures.
        if done.errors is not None:
            self.errors.note(header.api_key, done.errors)
        if isinstance(done.answer, Pending):
            # The parts of a Produce are appended, and none waits for the disk alone: the answer comes when all are
            # durable.
            return self._pending(done.answer, route, header, peer, len(frame), began_us)
        return self._note_times(done.encoded, done.answer, route, header, peer, len(frame), self._now_us() - began_us)

    def _note_times(
        self,
        encoded: list[Buffer] | None,
        answer: Any,
        route: Route,
        header: RequestHeader,
        peer: Peer,
        received_bytes: int,
        local_us: int,
    ) -> list[Buffer] | None:
        """Note how long a request took that is answered now; returns its answer, with the wait that a quota asks."""
        times = route.times
        times.local.record(local_us)
        # Most requests did not wait and are not slow: they cost two counts.
        if peer.queued_ms or local_us >= self._times.slow_us:
            self._count_late(local_us, header, peer, times)
        else:
            times.total.record(local_us)
        if not self._meter.is_on:
            return encoded
        return self._metered(encoded, answer, route, header, peer, received_bytes, local_us)

    def _encoded(self, answer: Any, route: Route, header: RequestHeader) -> list[Buffer]:
        codes = route.errors_in(answer)
        if codes is not None:
            self.errors.note(header.api_key, codes)
        return route.encode(header.correlation_id, answer)

    def _encode_large(
        self, response: Any, route: Route, header: RequestHeader, then: Callable[[list[Buffer] | None], None]
    ) -> None:
        """Encode an answer of very many elements on a worker. Its connection sends it in its order all the same."""

        def done(found: tuple[set[int] | None, list[Buffer]]) -> None:
            codes, buffers = found
            if codes is not None:
                self.errors.note(header.api_key, codes)
            then(buffers)

        def encode() -> tuple[set[int] | None, list[Buffer]]:
            return route.errors_in(response), route.encode(header.correlation_id, response)

        self._broker.long_requests.on_worker(encode, done)

    def _count_late(self, local_us: int, header: RequestHeader, peer: Peer, times: ApiTimes) -> None:
        """A request that was answered at once, but had waited in the queue or took long."""
        queue_us = peer.queued_ms * 1000
        if queue_us:
            times.queue.record(queue_us)
        times.total.record(queue_us + local_us)
        if queue_us + local_us >= self._times.slow_us:
            self._log_slow(header, peer, {"queue": queue_us, "local": local_us})

    def _pending(
        self, answer: Pending[Any], route: Route, header: RequestHeader, peer: Peer, received_bytes: int, began_us: int
    ) -> PendingResponse:
        """The reactor's answer to come, completed by the handler's. It may be complete already: both take that."""
        monotonic_us, times = self._now_us, route.times
        local_us, queue_us, ready_us = monotonic_us() - began_us, peer.queued_ms * 1000, 0
        # The reactor counts these bytes as memory of the connection until the answer is there.
        pending = PendingResponse(BROKER_APIS[header.api_key].parked_bytes(received_bytes))

        def taken() -> None:
            now_us = monotonic_us()
            # Kafka's stages of a request's time (RequestMetrics): local on the loop, remote until it is ready, then the
            # queue.
            response_queue_us, remote_us = now_us - ready_us, ready_us - began_us - local_us
            times.local.record(local_us)
            times.remote.record(remote_us)
            times.response_queue.record(response_queue_us)
            if queue_us:
                times.queue.record(queue_us)
            times.total.record(queue_us + now_us - began_us)
            # A long poll's wait is the client's own wish. Other waits are ours: the disk, a group, a worker.
            own_us = queue_us + local_us + response_queue_us
            if (own_us if times.is_long_poll else own_us + remote_us) >= self._times.slow_us:
                self._log_slow(
                    header,
                    peer,
                    {"queue": queue_us, "local": local_us, "remote": remote_us, "response queue": response_queue_us},
                )

        def encoded(response: Any, buffers: list[Buffer] | None) -> None:
            nonlocal ready_us
            if self._meter.is_on:
                buffers = self._metered(buffers, response, route, header, peer, received_bytes, local_us)
            ready_us = monotonic_us()
            pending.complete(buffers)

        def completed(response: Any) -> None:
            # An answer of thousands of elements takes milliseconds to encode: that is a worker's.
            if answer.is_large:
                self._encode_large(response, route, header, partial(encoded, response))
            else:
                encoded(response, self._encoded(response, route, header))

        pending.taken = taken
        answer.then(completed)
        return pending

    def _metered(
        self,
        encoded: list[Buffer] | None,
        answer: Any,
        route: Route,
        header: RequestHeader,
        peer: Peer,
        received_bytes: int,
        spent_us: int,
    ) -> list[Buffer] | None:
        """Note what a request used. If that was too much, the peer is muted, and the answer has the time."""
        meter, name = self._meter, peer.session.principal.name
        sent_bytes = sum(map(len, encoded or ()))
        wait_ms = meter.throttle_ms(header.api_key, name, header.client_id, received_bytes, sent_bytes, spent_us)
        if not wait_ms:
            return encoded
        route.times.throttle.record(wait_ms * 1000)
        meter.mute(peer.session, wait_ms)
        # SaslHandshake and a few others have no such field: their clients are muted all the same.
        if not hasattr(answer, "throttle_time_ms"):
            return encoded
        answer.throttle_time_ms = max(wait_ms, answer.throttle_time_ms)
        return route.encode(header.correlation_id, answer)

    def _sending_changed(self, peer: Peer, is_paused: bool) -> None:
        """Count the time that a client did not read for the request that was answered last."""
        session: ClientSession = peer.session
        now_us = self._broker.clock.monotonic_us()
        # The reactor stops sending when the client does not read: that time is the client's, not ours.
        if is_paused:
            session.paused_at_us = now_us
        elif session.times is not None:
            session.times.send.record(now_us - session.paused_at_us)

    def _log_slow(self, header: RequestHeader, peer: Peer, stages_us: Mapping[str, int]) -> None:
        now_us = self._broker.clock.monotonic_us()
        self._times.report_slow(header, peer.session.principal, peer.address, stages_us, now_us)

    def _log_closing(self, peer: Peer, error: ProtocolError | LimitExceeded) -> None:
        """One line in the log for a connection that is closed for this, and not more than one in each interval."""
        skipped = self._log_limit.admit(self._broker.clock.monotonic_ms())
        if skipped is None:
            return
        _log.warning("closing the connection of %s: %s (%d more like it before)", peer, error, skipped)

    def _add_route(self, api_key: int, api_version: int) -> Route:
        handle = HANDLERS.get(api_key)
        # The connection ends, as with Kafka: a client learns the APIs from ApiVersions first (KIP-35).
        if handle is None or api_key not in self._broker.api_keys:
            raise ProtocolError(f"API key {api_key} is not supported")
        api, times, errors = BROKER_APIS[api_key], self._times.of(api_key), errors_in(api_key)
        if api_version not in APIS[api_key].versions:
            # KIP-511: a client newer than this node learns the versions from an answer in version 0. The route is
            # not kept: a client may ask in 32,000 such versions.
            if api_key == _API_VERSIONS:
                return Route(_undecoded, _unsupported, _unsupported_encoder, FRAME_BYTES_MAX, times, errors)
            raise ProtocolError(f"version {api_version} of API key {api_key} is not supported")
        # Produce has an encoder of its own, as its answers are small and come by the thousand.
        encode: Encode = (
            partial(encode_produce_response_frame, api_version)
            if api_key == _PRODUCE
            else partial(encode_response_frame, api_key, api_version)
        )
        # Wrapped once for the route, so that a node without a tracer pays nothing.
        if self._tracer is not None and api.is_traced:
            handle = traced(api_key, handle, self._tracer)
        is_alone = self._broker.cluster.is_alone
        if not is_alone:
            from hutong.broker.dispatch.coordinated import coordinated  # late: a node alone never needs it

            handle = coordinated(api_key, handle, self._broker)
        decode = codecs.request_decoder(api_key, api_version, api.elements_max)
        is_forwarded = api.is_forwarded and not is_alone
        route = Route(decode, handle, encode, api.frame_bytes_max, times, errors, is_forwarded)
        self._routes[api_key << 16 | api_version] = route
        return route


def _nothing() -> None:
    """The release of a session whose connection has ended."""


def _undecoded(_frame: Buffer, _offset: int) -> None:
    """The body of a request in a version of which nothing is known."""


def _unsupported(_request: None, _context: RequestContext[Any]) -> Any:
    return k18_api_versions.unsupported_version()


_unsupported_encoder: Final[Encode] = partial(encode_response_frame, _API_VERSIONS, 0)
