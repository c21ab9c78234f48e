"""HTTP requests and WebSocket messages on connections of the reactor, and the sessions they belong to.

Strategy: a connection has at most one request that is not answered; where that is a transport's response it is a
receiver of its session until either ends. Everything is sent by `Peer.push`. A WebSocket is not read while the
application takes no messages; a request with messages is answered when it has taken them.

Decides nothing about sessions; knows no event bus.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hutong.bus.bridge.hooks import BridgePeer
from hutong.bus.sockjs.driver import SessionDriver, Sessions
from hutong.bus.sockjs.web import answers
from hutong.bus.sockjs.web.answers import CLIENT_URL, NO_STORE, TEXT, HttpAnswer
from hutong.bus.sockjs.web.frames import decode_messages
from hutong.bus.sockjs.web.routes import SockJsEndpoint, SockJsRoute, find_route
from hutong.bus.sockjs.web.transports import TRANSPORTS, FallbackTransport, form_payload
from hutong.foundation.errors import LimitExceeded
from hutong.reactor.connections.channel import Response
from hutong.reactor.connections.handler import Peer
from hutong.web.channel import HttpChannel
from hutong.web.machine import websocket_key, websocket_refusal
from hutong.web.messages import Fields, HttpFault, HttpRequest
from hutong.web.visitors import Visitors
from hutong.wire.buffer import Buffer

ENTROPY_MAX: Final = 2**32
_PAGES: Final = (SockJsEndpoint.ROOT, SockJsEndpoint.GREETING, SockJsEndpoint.INFO, SockJsEndpoint.IFRAME)
_UNKNOWN_HOST: Final = "This server does not know itself by this host name; add the name to sockjs.hosts.\n"
_FOREIGN_PAGE: Final = "Pages of this origin may not connect; add the origin to sockjs.origins.\n"
_SESSION_COOKIE: Final = re.compile(r"(?:^|;)\s*JSESSIONID=([A-Za-z0-9_.-]{1,100})\s*(?:;|,|$)")


@dataclass(frozen=True, slots=True)
class Site:
    """The public face of a server.

    `prefix` begins with a slash; `cookie_needed`: a balancer keeps clients at one node by JSESSIONID. See Visitors for
    `origins`, `hosts` and `is_secure`.
    """

    prefix: str = "/eventbus"
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    is_secure: bool = False
    cookie_needed: bool = False
    client_url: str = CLIENT_URL


class SockJsConnection:
    """One connection, a receiver of a session while it carries a transport's response or a WebSocket."""

    __slots__ = ("_callback", "_is_raw", "_number", "_session", "_transport", "channel", "handler", "http", "peer")

    def __init__(self, handler: "SockJSHandler", peer: Peer) -> None:
        self.handler = handler
        self.peer = peer
        self.channel = HttpChannel(peer, handler.sessions.soon, self)
        self.http = self.channel.http
        self._session: SessionDriver | None = None
        self._number = 0  # as a receiver
        self._transport: FallbackTransport | None = None  # None for a WebSocket
        self._callback = ""
        self._is_raw = False
        peer.sending_changed = self._sending_changed

    @property
    def is_raw(self) -> bool:
        return self._is_raw

    @property
    def session(self) -> SessionDriver | None:
        return self._session

    # Called by the channel.

    @property
    def is_holding(self) -> bool:
        return self._session is not None and self._session.is_holding

    def when_taken(self, then: Callable[[], None]) -> None:
        assert self._session is not None
        self._session.when_taken(then)

    def request_received(self, request: HttpRequest) -> None:
        self.handler.answer_request(self, request)

    def fault_received(self, fault: HttpFault) -> None:
        self.http.refuse(fault.status, f"{fault.text}\n".encode())

    def message_received(self, text: str) -> None:
        self.handler.receive_message(self, text)

    # Called by the session and the handler.

    def attach(self, session: SessionDriver, transport: FallbackTransport, callback: str, room_bytes: int) -> None:
        """The head of the response has been sent."""
        self._session, self._transport, self._callback = session, transport, callback
        self._number = session.attach(self, room_bytes)

    def attach_websocket(self, session: SessionDriver, *, is_raw: bool) -> None:
        self._session, self._is_raw = session, is_raw
        self._transport = None  # of a poll that the same connection carried before
        self._number = session.attach(self, None)

    def put(self, frame: str) -> None:
        if self._transport is not None:
            self.http.send(self._transport.wrap(frame, self._callback).encode())
        elif self.http.websocket is not None:
            self.http.websocket.send_text(frame)
        self.channel.send()

    def end(self, code: int, reason: str) -> None:
        self._session = None
        if self.http.websocket is not None:
            # SockJS carries its own code in the frame "c[...]" before this; only a raw client sees the WebSocket's.
            self.http.websocket.close(*((code, reason) if self._is_raw else (1000, "")))
        else:
            self.http.end()
        self.channel.resume()

    def closed(self) -> None:
        """The connection is gone."""
        self.channel.closed()
        # Forgotten first: the session may end this receiver in return.
        session, self._session = self._session, None
        if session is not None:
            session.lost(self._number)

    def _sending_changed(self, is_paused: bool) -> None:
        # Only frames of a session can pile up: a plain answer is written once, and the next request waits for it.
        if self._session is not None:
            self._session.blocked(self._number, is_paused)


class SockJSHandler:
    """The handler of an acceptor whose framing is `HttpConnection`. `entropy` gives a number below ENTROPY_MAX."""

    def __init__(self, sessions: Sessions, site: Site, entropy: Callable[[], int]) -> None:
        self.sessions = sessions
        self._site = site
        self._prefix = site.prefix.rstrip("/")
        self._visitors = Visitors(site.origins, site.hosts, is_secure=site.is_secure)
        self._entropy = entropy
        self._connections: dict[Peer, SockJsConnection] = {}

    # Called by the reactor.

    def connection_opened(self, peer: Peer) -> None:
        self._connections[peer] = SockJsConnection(self, peer)

    def connection_closed(self, peer: Peer) -> None:
        self._connections.pop(peer).closed()

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        return self._connections[peer].channel.received(frame)

    # Called by connections, one event after the other.

    def answer_request(self, connection: SockJsConnection, request: HttpRequest) -> None:
        route = find_route(request.target, self._prefix)
        # Before anything else: an unknown Host is the sign of DNS rebinding.
        if not self._visitors.knows_host(request.headers):
            self._respond(connection, answers.text(403, _UNKNOWN_HOST))
        elif route is None:
            self._respond(connection, answers.not_found(self._prefix))
        elif request.method not in route.methods:
            self._respond(connection, answers.not_allowed(route.methods))
        # A page of another origin may not use the bridge with the user's cookies.
        elif not self._is_permitted(request, route.endpoint):
            self._respond(connection, answers.text(403, _FOREIGN_PAGE, [("Vary", "Origin")]))
        elif request.method == "OPTIONS":
            self._respond(connection, answers.preflight(route.methods, self._session_fields(request)))
        elif route.endpoint in (SockJsEndpoint.WEBSOCKET, SockJsEndpoint.RAW_WEBSOCKET):
            self._upgrade(connection, request, is_raw=route.endpoint is SockJsEndpoint.RAW_WEBSOCKET)
        elif route.endpoint in (SockJsEndpoint.XHR_SEND, SockJsEndpoint.JSONP_SEND):
            self._receive_post(connection, request, route)
        elif route.endpoint in TRANSPORTS:
            self._open_response(connection, request, route, TRANSPORTS[route.endpoint])
        else:
            self._respond(connection, self._page(request, route.endpoint))

    def _is_permitted(self, request: HttpRequest, endpoint: SockJsEndpoint) -> bool:
        # Pages carry no user's data, so a script tag of any page may load them.
        visitors, headers = self._visitors, request.headers
        return visitors.allows(headers) and (endpoint in _PAGES or visitors.allows_hidden(headers))

    def _page(self, request: HttpRequest, endpoint: SockJsEndpoint) -> HttpAnswer:
        site = self._site
        if endpoint is SockJsEndpoint.INFO:
            shared = self._visitors.cross_origin(request.headers)
            return answers.info(self._entropy(), cookie_needed=site.cookie_needed, cross_origin=shared)
        if endpoint is SockJsEndpoint.IFRAME:
            return answers.iframe(site.client_url, request.headers.get("if-none-match"), self._visitors.frame_ancestors)
        return answers.greeting() if endpoint is SockJsEndpoint.GREETING else answers.root(self._prefix or "/")

    # Transports.

    def _open_response(
        self, connection: SockJsConnection, request: HttpRequest, route: SockJsRoute, transport: FallbackTransport
    ) -> None:
        """The response of a transport: from now on a receiver of its session."""
        # JSONP and HTMLFILE call a function of the page by name: a missing or wild name would be script injection.
        if transport.needs_callback and route.callback is None:
            wrong = 'invalid "callback" parameter' if route.has_callback else '"callback" parameter required'
            self._respond(connection, answers.text(500, f"{wrong}\n", [NO_STORE]))
            return
        try:
            session = self.sessions.find_or_make(route.session, _peer(connection, request))
        except LimitExceeded as error:
            self._respond(connection, answers.text(503, f"{error}\n", self._session_fields(request)))
            return
        callback = route.callback or ""
        # The callback's name is the client's, so no browser may guess another type for the answer.
        nosniff = ("X-Content-Type-Options", "nosniff")
        connection.http.begin_response(
            200, [("Content-Type", transport.content_type), NO_STORE, nosniff, *self._session_fields(request)]
        )
        prelude = transport.prelude(callback)
        if prelude:
            connection.http.send(prelude.encode())
        # A poll ends with its first frame; a stream after so many bytes, so that browsers free the response's memory.
        room_bytes = self.sessions.limits.response_bytes_max if transport.is_streaming else 0
        connection.attach(session, transport, callback, room_bytes)

    def _receive_post(self, connection: SockJsConnection, request: HttpRequest, route: SockJsRoute) -> None:
        """Messages of a client that has no WebSocket."""
        shared = self._session_fields(request)
        session = self.sessions.find(route.session)
        is_jsonp = route.endpoint is SockJsEndpoint.JSONP_SEND
        # SockJS 0.3.4: only a receiver opens a session; a post to an unknown one is answered by 404.
        if session is None or not session.is_open:
            self._respond(connection, answers.text(404, "There is no such session.\n", shared))
            return
        # No second array is kept: what one session holds is bounded by one request's body.
        if session.is_holding:
            self._respond(connection, answers.text(503, "The messages before these are not taken yet.\n", shared))
            return
        kind = request.headers.get("content-type", "")
        payload = form_payload(request.body, kind) if is_jsonp else request.body
        # The two texts are those of SockJS's reference server. None: a form that cannot be read, also broken JSON.
        if not payload and payload is not None:
            self._respond(connection, answers.text(500, "Payload expected.\n", shared))
            return
        texts = None if payload is None else decode_messages(payload)
        if texts is None:
            self._respond(connection, answers.text(500, "Broken JSON encoding.\n", shared))
            return
        # JSONP posts a form to a hidden frame, which shows the body; XHR takes an empty answer.
        done = (
            HttpAnswer(200, [TEXT, NO_STORE, *shared], b"ok")
            if is_jsonp
            else HttpAnswer(204, [TEXT, NO_STORE, *shared])
        )
        session.messages_received(texts, lambda: self._taken(connection, done))

    def _taken(self, connection: SockJsConnection, done: HttpAnswer) -> None:
        if connection.channel.is_open:
            self._respond(connection, done)
            connection.channel.resume()

    # WebSockets.

    def _upgrade(self, connection: SockJsConnection, request: HttpRequest, *, is_raw: bool) -> None:
        """Switch to WebSocket, or refuse with the reason (RFC 6455, section 4.2)."""
        headers, http = request.headers, connection.http
        refusal = websocket_refusal(headers)
        if refusal is not None:
            status, sentence = refusal
            version = [("Sec-WebSocket-Version", "13")] if status == 426 else []
            http.refuse(status, f"{sentence}\n".encode(), [TEXT, *version])
            return
        key = websocket_key(headers)
        assert key is not None, "it was looked at"
        texts = http.accept_websocket(key)
        connection.attach_websocket(self.sessions.make_single(_peer(connection, request), is_raw=is_raw), is_raw=is_raw)
        # Messages that came in one read with the handshake.
        for text in texts:
            self.receive_message(connection, text)

    def receive_message(self, connection: SockJsConnection, text: str) -> None:
        """A message on a WebSocket: an array of messages, or one as it is where it is raw."""
        session = connection.session
        assert connection.http.websocket is not None
        # The session is closed, or the message is empty, which SockJS ignores.
        if session is None or not text:
            return
        texts = [text] if connection.is_raw else decode_messages(text)
        # 1002 is a protocol error (RFC 6455, section 7.4.1); there is no request to refuse.
        if texts is None:
            connection.http.websocket.close(1002, "Broken JSON encoding.")
            return
        session.messages_received(texts, connection.peer.release)

    # Answers.

    def _respond(self, connection: SockJsConnection, answer: HttpAnswer) -> None:
        connection.http.respond(answer.status, answer.headers, answer.body)

    def _session_fields(self, request: HttpRequest) -> Fields:
        """The headers of every answer of a session: who may read it, and the cookie of a balancer."""
        fields = self._visitors.cross_origin(request.headers)
        # The value is the balancer's: it is repeated, and "dummy" is SockJS's where there is none.
        if self._site.cookie_needed:
            found = _SESSION_COOKIE.search(request.headers.get("cookie", ""))
            fields.append(("Set-Cookie", f"JSESSIONID={found.group(1) if found else 'dummy'}; Path=/"))
        return fields


def _peer(connection: SockJsConnection, request: HttpRequest) -> BridgePeer:
    peer = connection.peer
    return BridgePeer(0, peer.address, peer.port, peer.certificate, request.headers)
