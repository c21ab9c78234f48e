"""HTTP/1.1 of one connection: bytes in, whole requests out; h11 knows the grammar.

Strategy: a request is returned when its body is complete; the next one is parsed when its answer is. What h11 lets
pass but two parties may read in two ways is refused here, so that nothing can be smuggled past a proxy (RFC 9112,
11.2): a body with both a length and a transfer coding, a transfer coding in HTTP/1.0, lines that end in a bare LF,
folded lines, and trailers. A request that breaks the grammar or a bound becomes a HttpFault, which is answered, and
then the connection ends.

One read may bring thousands of tiny requests or frames, and each costs more than its bytes: so bytes are parsed in
slices, and the driver serves other connections in between.

It is a framing of the reactor: `bytes_held`, `failure` and `receive_data` are what that asks for. After
`accept_websocket` the bytes are WebSocket frames. Knows nothing of paths, sockets or time.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

import h11

from hutong.foundation.errors import ProtocolError
from hutong.web.limits import HttpLimits
from hutong.web.messages import Fields, HttpEvent, HttpFault, HttpRequest, PipelinedBytes, Ready
from hutong.wire.buffer import Buffer

if TYPE_CHECKING:
    from hutong.web.websocket import WebSocket

TEXT: Final = ("Content-Type", "text/plain; charset=UTF-8")
SLICE_BYTES: Final = 4 * 1024  # some 680 of the smallest WebSocket frames: 17 ms
_FAULT_TEXT_MAX: Final = 200  # characters: h11's texts may quote the input
_LINE_END: Final = b"\r\n"
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_SMUGGLED_LINE: Final = re.compile(rb"(?<!\r)\n|\n[ \t]")
"""A line that ends without CR, or that continues the one before it: h11 takes both, proxies may take neither."""


class HttpConnection:
    """The engine of one connection. Answer each request: `respond`, or `begin`, `send`..., `end`, or a WebSocket."""

    def __init__(self, limits: HttpLimits) -> None:
        self.frame_bytes_max = limits.body_bytes_max
        self.bytes_held = 0  # of an unfinished request or message, and of what is not parsed
        self._held_bytes = 0  # of an unfinished request or message alone
        self.failure: ProtocolError | None = None
        self.is_finished = False  # close the connection once what is ready was sent
        self.websocket: WebSocket | None = None
        self._limits = limits
        self._pending = b""  # not parsed yet
        self._http = self._new_engine()
        self._request: h11.Request | None = None
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._is_answering = False
        self._out: list[bytes] = []

    @property
    def is_behind(self) -> bool:
        """True while received bytes are not parsed."""
        return bool(self._pending)

    @property
    def is_answering(self) -> bool:
        """True while the answer to the last request is not complete: `next_slice` parses nothing."""
        return self._is_answering and not self.is_finished

    @property
    def is_streaming(self) -> bool:
        """True while an answer is begun and not complete; it may have no end."""
        return self.is_answering and self._http.our_state is h11.SEND_BODY

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
        # Behind an answer without end the client is read on, so that its going is noticed: within a bound.
        if self.is_streaming and len(self._pending) > self._limits.head_bytes_max:
            self.failure = ProtocolError("too much was sent before the answer to the last request")
            self._pending = b""
        return self.next_slice()

    def next_slice(self) -> Sequence[HttpEvent]:
        """The events of the next bytes that were received but not parsed."""
        events: Sequence[HttpEvent] = ()
        # Pipelining is allowed: what comes early waits unparsed, and the driver reads no more meanwhile.
        if self.websocket is not None or not self.is_answering:
            data, self._pending = self._pending[:SLICE_BYTES], self._pending[SLICE_BYTES:]
            events = self._parse(data)
        self._count_held()
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

    def respond(self, status: int, headers: Fields = (), body: bytes = b"", pieces: Sequence[bytes] = ()) -> None:
        """The whole answer: the body, and further pieces of it."""
        size = len(body) + sum(map(len, pieces))
        # RFC 9110, section 8.6: no Content-Length with 204, and with 304 only that of the real answer. HEAD gets the
        # length without the body (9.3.2).
        if status not in (204, 304):
            headers = [*headers, ("Content-Length", str(size))]
        self.begin_response(status, headers)
        if self._request is None or self._request.method != b"HEAD":
            for piece in (body, *pieces):
                if piece:
                    self.send(piece)
        self.end()

    def refuse(self, status: int, body: bytes, headers: Fields = (TEXT,)) -> None:
        """The last answer, to a HttpFault for one; nothing where another answer is on its way."""
        # Behind the head of another answer a second one would be read as part of its body.
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.respond(status, [("Connection", "close"), *headers], body)
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
            early = self._http.trailing_data[0]
            if early.startswith((b"\r", b"\n")):
                self._http = self._new_engine()
                self._take(early)
            # What came early is now an unfinished request, for which the client has its time.
            self._held_bytes = len(self._http.trailing_data[0])
            self._count_held()
        else:
            self.is_finished = True

    def accept_websocket(self, key: str) -> Sequence[str]:
        """Switch protocols; returns the messages that came with the handshake."""
        # Imported late: most servers never carry a WebSocket.
        from wsproto.utilities import generate_accept_token

        from hutong.web.websocket import WebSocket

        headers = [
            ("Upgrade", "WebSocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", generate_accept_token(key.encode()).decode()),
        ]
        response = h11.InformationalResponse(status_code=101, headers=headers, reason="Switching Protocols")
        self._out.append(self._http.send(response) or b"")
        self.websocket = WebSocket(self._limits.body_bytes_max)
        return self._messages(self._http.trailing_data[0])

    # Steps of the above.

    def _new_engine(self) -> h11.Connection:
        return h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_bytes_max)

    def _count_held(self) -> None:
        # Behind a streamed answer the server is awaited, not the client: the reactor's deadline must not count.
        self.bytes_held = 0 if self.is_streaming else self._held_bytes + len(self._pending)

    def _parse(self, data: bytes) -> Sequence[HttpEvent]:
        # What follows a broken request may be anything: interpreting it is how requests are smuggled.
        if self.failure is not None or self.is_finished:
            self._pending = b""
            return ()
        if self.websocket is not None:
            return self._messages(data)
        self._take(data)
        return self.next_events()

    def _take(self, data: bytes) -> None:
        # RFC 9112, 2.2: empty lines before a request are ignored, which h11 does not do.
        if self._http.their_state is h11.IDLE and not self._http.trailing_data[0]:
            data = data.lstrip(_LINE_END)
        # To h11 no data is the end of the stream.
        if data:
            self._held_bytes += len(data)
            self._http.receive_data(data)

    def _messages(self, data: bytes) -> Sequence[str]:
        assert self.websocket is not None
        texts = self.websocket.receive_data(data)
        self._held_bytes = self.websocket.bytes_held
        return texts

    def _read(self) -> Sequence[HttpEvent]:
        """The next request, if it is complete."""
        while True:
            if self._http.their_state is h11.IDLE and self._has_smuggled_line():
                return self._fault(400, "a line of the head ends without CR LF, or continues the one before it")
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
                if self._body_bytes > self._limits.body_bytes_max:
                    return self._too_large()
            elif isinstance(event, h11.EndOfMessage):
                # Nobody here needs trailers (RFC 9112, 7.1.2 lets a server drop them), and h11 takes their lines as
                # loosely as those of a head.
                if event.headers:
                    return self._fault(400, "no fields are taken after a body")
                return self._complete()
            else:
                return ()

    def _has_smuggled_line(self) -> bool:
        received, _ = self._http.trailing_data
        end = _HEAD_END.search(received)
        return _SMUGGLED_LINE.search(received, 0, len(received) if end is None else end.end()) is not None

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
        if len(length) > 15 or int(length) > self._limits.body_bytes_max:
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
        return f"a body may have {self._limits.body_bytes_max} bytes"

    def _fault(self, status: int, text: str) -> Sequence[HttpEvent]:
        self.failure = ProtocolError(text)
        self._held_bytes = 0
        return (HttpFault(status, text[:_FAULT_TEXT_MAX]),)


def websocket_refusal(headers: Mapping[str, str]) -> tuple[int, str] | None:
    """The status and the sentence for a request that is no handshake of a WebSocket (RFC 6455, 4.2); None for one."""
    wishes = [word.strip().lower() for word in headers.get("connection", "").split(",")]
    if headers.get("upgrade", "").strip().lower() != "websocket":
        return 400, 'Can "Upgrade" only to "WebSocket".'
    if "upgrade" not in wishes:
        return 400, '"Connection" must be "Upgrade".'
    # 4.4: 426 with the supported version.
    if headers.get("sec-websocket-version") != "13":
        return 426, "Only version 13 of WebSocket is spoken here."
    if websocket_key(headers) is None:
        return 400, '"Sec-WebSocket-Key" must be 16 bytes in base64.'
    return None


def websocket_key(headers: Mapping[str, str]) -> str | None:
    """The key of a request for a WebSocket (RFC 6455, 4.2.1), None where it is missing or not 16 bytes."""
    key = headers.get("sec-websocket-key", "")
    try:
        return key if len(base64.b64decode(key, validate=True)) == 16 else None
    except (binascii.Error, ValueError):
        return None
