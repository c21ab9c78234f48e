"""HTTP/1.1 of one connection: bytes in, whole requests out; h11 knows the grammar.

Strategy: a request is returned when its body is complete; the next one is parsed when its answer is. What h11 lets
pass but two parties may read in two ways is refused here, so that nothing can be smuggled past a proxy (RFC 9112,
11.2): a body with both a length and a transfer coding, and a transfer coding in HTTP/1.0. A request that breaks the
grammar or a bound becomes a HttpFault, which is answered, and then the connection ends.

One read may bring thousands of tiny requests or frames, and each costs more than its bytes: so bytes are parsed in
slices, and the driver serves other connections in between.

It is a framing of the reactor: `bytes_held`, `failure` and `receive_data` are what that asks for. After
`accept_websocket` the bytes are WebSocket frames. Knows nothing of paths, sockets or time.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, cast

import h11
from wsproto.utilities import generate_accept_token

from hutong.bus.sockjs.limits import SockJSLimits
from hutong.bus.sockjs.web.websocket import WebSocket
from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer

Fields = Sequence[tuple[str, str]]
_TEXT: Final = ("Content-Type", "text/plain; charset=UTF-8")
SLICE_BYTES: Final = 4 * 1024  # some 680 of the smallest WebSocket frames: 17 ms
_FAULT_TEXT_MAX: Final = 200  # characters: h11's texts may quote the input


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A whole request. Header names are in lower case; of several of one name, the values are joined by commas."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpFault:
    """A malformed request, with the status to answer."""

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class Ready:
    """Nothing came that matters above, but there is something to send."""


@dataclass(frozen=True, slots=True)
class PipelinedBytes:
    """More has come than one step processes.

    Continue with `next_slice`, and read no more until `is_behind` is False.
    """


HttpEvent = HttpRequest | HttpFault | Ready | PipelinedBytes | str
"""A str is a message on an accepted WebSocket."""


class HttpConnection:
    """The engine of one connection. Answer each request: `respond`, or `begin`, `send`..., `end`, or a WebSocket."""

    def __init__(self, limits: SockJSLimits) -> None:
        self.frame_bytes_max = limits.message_bytes_max
        self.bytes_held = 0  # of an unfinished request or message; 0 while it is not the client that is awaited
        self._held_bytes = 0  # the same, for either side
        self.failure: ProtocolError | None = None
        self.is_finished = False  # close the connection once what is ready was sent
        self.websocket: WebSocket | None = None
        self._limits = limits
        self._pending = b""  # not parsed yet
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_bytes_max)
        self._request: h11.Request | None = None
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._early_bytes = 0  # received before the answer to the request at hand was complete
        self._is_answering = False
        self._out: list[bytes] = []

    @property
    def is_behind(self) -> bool:
        return bool(self._pending)

    def receive_data(self, data: Buffer) -> list[Buffer]:
        """The events completed by `data`: the reactor carries them as it carries frames, and never looks inside."""
        events = self.receive(bytes(data))
        # A "100 Continue" or a pong: no event, but the handler must still send it.
        if not events and (self._out or (self.websocket is not None and self.websocket.has_data_to_send)):
            events = (Ready(),)
        return cast(list[Buffer], [*events, PipelinedBytes()] if self._pending else list(events))

    def receive(self, data: bytes) -> Sequence[HttpEvent]:
        """Requests, at most one of them unanswered; or messages. Those of the first slice, if there are more."""
        self._pending += data
        return self.next_slice()

    def next_slice(self) -> Sequence[HttpEvent]:
        """The events of the next bytes that were received but not parsed."""
        data, self._pending = self._pending[:SLICE_BYTES], self._pending[SLICE_BYTES:]
        events = self._parse(data)
        # While a slice is left the server is behind, not the client: the reactor's deadline must not count.
        self.bytes_held = 0 if self._pending else self._held_bytes
        return events

    def next_events(self) -> Sequence[HttpEvent]:
        """The next request, if it has arrived already."""
        # One request at a time. After the switch to WebSocket the bytes are HTTP no longer.
        if self._is_answering or self.is_finished or self.websocket is not None:
            return ()
        try:
            return self._read()
        except h11.RemoteProtocolError as error:
            return self._fault(error.error_status_hint, str(error))

    def data_to_send(self) -> list[Buffer]:
        """The bytes that are ready, in order."""
        # The "101 Switching Protocols" of h11 goes first, then the frames.
        if self.websocket is not None:
            self._out += self.websocket.data_to_send()
            self.is_finished = self.is_finished or self.websocket.is_over
        ready, self._out = self._out, []
        return cast(list[Buffer], ready)

    # Answers.

    def respond(self, status: int, headers: Fields = (), body: bytes = b"") -> None:
        """The whole answer."""
        if self._request is not None and self._request.method == b"HEAD":
            body = b""
        # RFC 9110, section 8.6: no Content-Length with 204, and with 304 only that of the real answer.
        if status not in (204, 304):
            headers = [*headers, ("Content-Length", str(len(body)))]
        self.begin_response(status, headers)
        if body:
            self.send(body)
        self.end()

    def refuse(self, status: int, text: str, headers: Fields = ()) -> None:
        """The last answer, to a HttpFault for one; nothing where another answer is on its way."""
        # Behind the head of another answer a second one would be read as part of its body.
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.respond(status, [_TEXT, ("Connection", "close"), *headers], text.encode())
        self.is_finished = True

    def begin_response(self, status: int, headers: Fields) -> None:
        """The head of an answer whose body follows."""
        fields = [
            (name.encode(), value.encode("latin-1")) for name, value in headers
        ]  # some repeat a header of the request
        response = h11.Response(status_code=status, headers=fields, reason=HTTPStatus(status).phrase)
        self._out.append(self._http.send(response) or b"")

    def send(self, data: bytes) -> None:
        self._out.append(self._http.send(h11.Data(data=data)) or b"")

    def end(self) -> None:
        """The answer is complete; ask for `next_events`."""
        self._out.append(self._http.send(h11.EndOfMessage()) or b"")
        self._is_answering = False
        self._request = None
        # Otherwise one of both sides wants to close: HTTP/1.0, "Connection: close", or a request that broke.
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            # The early bytes are now those of an unfinished request, for which the client has its time.
            self._held_bytes, self._early_bytes = self._early_bytes, 0
        else:
            self.is_finished = True

    def accept_websocket(self, key: str) -> Sequence[HttpEvent]:
        """Switch protocols; returns the messages that came with the handshake."""
        headers = [
            ("Upgrade", "WebSocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", generate_accept_token(key.encode()).decode()),
        ]
        response = h11.InformationalResponse(status_code=101, headers=headers, reason="Switching Protocols")
        self._out.append(self._http.send(response) or b"")
        self.websocket = WebSocket(self._limits.message_bytes_max)
        return self._messages(self._http.trailing_data[0])

    # Steps of the above.

    def _parse(self, data: bytes) -> Sequence[HttpEvent]:
        # What follows a broken request may be anything: interpreting it is how requests are smuggled.
        if self.failure is not None or self.is_finished:
            self._pending = b""
            return ()
        if self.websocket is not None:
            return self._messages(data)
        # Pipelining is allowed, but what waits for an answer is memory: a head's worth is enough for any client.
        if self._is_answering:
            self._early_bytes += len(data)
            if self._early_bytes > self._limits.head_bytes_max:
                self.failure = ProtocolError("too much was sent before the answer to the last request")
                return ()
        else:
            self._held_bytes += len(data)
        self._http.receive_data(data)
        return self.next_events()

    def _messages(self, data: bytes) -> Sequence[HttpEvent]:
        assert self.websocket is not None
        texts = self.websocket.receive_data(data)
        self._held_bytes = self.websocket.bytes_held
        return texts

    def _read(self) -> Sequence[HttpEvent]:
        """The next request, if it is complete."""
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._request = event  # also for a HttpFault: its answer has no body where HEAD was asked
                fault = self._why_not(event)
                if fault is not None:
                    return self._fault(fault.status, fault.text)
                # RFC 9110, section 10.1.1: such a client sends its body only after this. Refused ones never send it.
                if self._http.they_are_waiting_for_100_continue:
                    proceed = h11.InformationalResponse(status_code=100, headers=[], reason="Continue")
                    self._out.append(self._http.send(proceed) or b"")
            elif isinstance(event, h11.Data):
                self._body.append(event.data)
                self._body_bytes += len(event.data)
                # A chunked body has no length in its head, so it is counted as it comes.
                if self._body_bytes > self._limits.message_bytes_max:
                    return self._too_large()
            elif isinstance(event, h11.EndOfMessage):
                return self._complete()
            else:
                return ()

    def _why_not(self, request: h11.Request) -> HttpFault | None:
        if request.http_version not in (b"1.0", b"1.1"):
            return HttpFault(505, "HTTP 1.1 is spoken here")
        size = len(request.target) + sum(len(name) + len(value) + 4 for name, value in request.headers)
        if size > self._limits.head_bytes_max:  # h11 bounds what is incomplete, and this may have come at once
            return HttpFault(431, f"a head may have {self._limits.head_bytes_max} bytes")
        names = {name for name, _ in request.headers}
        if b"transfer-encoding" in names and (b"content-length" in names or request.http_version < b"1.1"):
            return HttpFault(400, "the length of the body can be read in two ways")
        length = dict(request.headers).get(b"content-length", b"0")
        # Digits are bounded first: `int` is slow for long texts, and raises above 4,300 digits.
        if len(length) > 15 or int(length) > self._limits.message_bytes_max:
            return HttpFault(413, self._bound())
        return None

    def _complete(self) -> Sequence[HttpEvent]:
        request = self._request
        assert request is not None
        headers: dict[str, str] = {}
        for raw_name, raw_value in request.headers:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]},{value}" if name in headers else value
        body = b"".join(self._body)
        self._body.clear()
        self._body_bytes = self._held_bytes = 0
        self._is_answering = True
        return (HttpRequest(request.method.decode("latin-1"), request.target.decode("latin-1"), headers, body),)

    def _too_large(self) -> Sequence[HttpEvent]:
        self._body.clear()
        return self._fault(413, self._bound())

    def _bound(self) -> str:
        return f"a body may have {self._limits.message_bytes_max} bytes"

    def _fault(self, status: int, text: str) -> Sequence[HttpEvent]:
        self.failure = ProtocolError(text)
        self._held_bytes = 0
        return (HttpFault(status, f"{text[:_FAULT_TEXT_MAX]}\n"),)


def websocket_key(headers: Mapping[str, str]) -> str | None:
    """The key of a request for a WebSocket (RFC 6455, 4.2.1), None where it is missing or not 16 bytes."""
    key = headers.get("sec-websocket-key", "")
    try:
        return key if len(base64.b64decode(key, validate=True)) == 16 else None
    except (binascii.Error, ValueError):
        return None
