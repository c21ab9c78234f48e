"""Carries requests to the handlers of their routes, and answers to connections: whole, later, or streamed.

Strategy: a request is admitted first (credentials), then routed, then checked (its body's type), then handled. A
handler returns its answer or is a coroutine, which runs as a task of its connection and ends with it. A streamed answer
waits while its client does not read. A handler that fails is reported to the loop and answered with 500.

Decides nothing about bytes; knows no application.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import urlsplit

from hutong.foundation.clock import Clock
from hutong.reactor.connections.channel import Response
from hutong.reactor.connections.handler import Peer
from hutong.security.principals import Principal
from hutong.web.answers import Answer, SocketAnswer, StreamedAnswer, WebAnswer, WebRefusal, refused_in_text
from hutong.web.channel import HttpChannel
from hutong.web.machine import websocket_key, websocket_refusal
from hutong.web.messages import HttpFault, HttpRequest
from hutong.web.requests import WebRequest, decode_query
from hutong.web.routes import WebRoute, WebRoutes
from hutong.web.visitors import Visitors
from hutong.wire.buffer import Buffer

if TYPE_CHECKING:
    from hutong.web.websocket import WebSocket  # late: most servers never carry one

_NORMAL_CLOSURE: Final = 1000
_SWITCHED: Final = 101
_PREFLIGHT: Final = WebAnswer(204, headers=[("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")])
_FAILED: Final = WebRefusal(500, "the request could not be done; the log says why")


class WebAdmission(Protocol):
    """Finds out whose request it is."""

    def admit(self, request: HttpRequest, peer: Peer) -> "Principal | Awaitable[Principal]":
        """Raises WebRefusal(401) for a request without the credentials that are asked for."""
        ...


class WebDriver:
    """The reactor's handler of an acceptor whose framing is `HttpConnection`."""

    def __init__(
        self,
        routes: WebRoutes,
        admission: WebAdmission,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        refused: Callable[[WebRefusal], WebAnswer] = refused_in_text,
        visitors: Visitors | None = None,
    ) -> None:
        """`refused` makes the answer of a refusal, in the form that the application's clients expect."""
        self.visitors = visitors
        self.routes = routes
        self.admission = admission
        self.loop = loop
        self.clock = clock
        self.refused = refused
        self.answers_total: Counter[int] = Counter()  # by status
        self._visits: set[_Visit] = set()

    @property
    def streams(self) -> int:
        """Streamed answers and WebSockets that have not ended."""
        return sum(visit.is_streaming for visit in self._visits)

    def connection_opened(self, peer: Peer) -> None:
        visit = peer.session = _Visit(self, peer)
        self._visits.add(visit)

    def connection_closed(self, peer: Peer) -> None:
        visit: _Visit = peer.session
        self._visits.discard(visit)
        visit.channel.closed()
        visit.cancel()

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        visit: _Visit = peer.session
        return visit.channel.received_awaited(frame)

    def end_streams(self) -> None:
        """End every streamed answer: a server that stops must not wait for answers without end."""
        for visit in list(self._visits):
            visit.end_stream()

    def report(self, error: BaseException, request: HttpRequest) -> None:
        """Report a fault of ours."""
        context = {"message": f"fault while answering {request.method} {request.target[:200]}", "exception": error}
        self.loop.call_exception_handler(context)


class _Visit:
    """One connection: the task of the request that is answered, and whether the client reads."""

    __slots__ = ("_driver", "_is_paused", "_request", "_task", "_writable", "channel", "is_streaming")

    is_holding = False  # it takes no messages, so none waits

    def __init__(self, driver: WebDriver, peer: Peer) -> None:
        self._driver = driver
        self.channel = HttpChannel(peer, driver.loop.call_soon, self)
        self._task: asyncio.Task[None] | None = None
        self._request: HttpRequest | None = None
        self.is_streaming = False
        self._is_paused = False
        self._writable: asyncio.Future[None] | None = None
        peer.sending_changed = self._sending_changed

    def when_taken(self, then: Callable[[], None]) -> None:
        then()

    def fault_received(self, fault: HttpFault) -> None:
        answer = self._driver.refused(WebRefusal(fault.status, fault.text))
        self._driver.answers_total[answer.status] += 1
        self.channel.http.refuse(answer.status, answer.body, self._fields(answer))

    def message_received(self, text: str) -> None:
        """Drop it: a `SocketAnswer` speaks, and does not listen."""

    def request_received(self, request: HttpRequest) -> None:
        self._request = request
        work: Any = None
        try:
            work = self._begin(request)
        except WebRefusal as refusal:
            self._respond(self._driver.refused(refusal))
        except Exception as error:  # noqa: BLE001  # the supervisor of handlers: a fault ends one request, not the node
            self._fail(error)
        if isinstance(work, WebAnswer):
            self._respond(work)
        elif work is not None:
            self._task = self._driver.loop.create_task(self._finish(work))

    def cancel(self) -> None:
        """End what is under way: the client is gone."""
        if self._task is not None:
            self._task.cancel()

    def end_stream(self) -> None:
        if self.is_streaming:
            self.cancel()
            self.channel.peer.close()

    # Steps of a request.

    def _begin(self, request: HttpRequest) -> "Answer | Awaitable[Answer]":
        driver, peer = self._driver, self.channel.peer
        self._check_visitor(request)
        path, query = _split_target(request.target)
        if driver.visitors is not None and request.method == "OPTIONS" and "origin" in request.headers:
            return _PREFLIGHT
        try:
            route, parameters = driver.routes.find(request.method, path)
        except WebRefusal as refusal:
            # Strangers learn nothing about paths.
            admitted = driver.admission.admit(request, peer)
            if isinstance(admitted, Principal):
                raise
            return _refuse_admitted(admitted, refusal)
        seen = WebRequest(
            request.method, path, parameters, decode_query(query), request.headers, request.body, peer.address
        )
        if route.is_public:
            route.check_body(request.headers.get("content-type", ""), request.body)
            return route.handler(seen)
        admitted = driver.admission.admit(request, peer)
        if isinstance(admitted, Principal):
            return _handle(route, seen, admitted)
        return _handle_admitted(route, seen, admitted)

    async def _finish(self, work: "StreamedAnswer | SocketAnswer | Awaitable[Answer]") -> None:
        """Give the answer that comes later. A task of the connection: cancelled once the client is gone."""
        try:
            answer = await work if isinstance(work, Awaitable) else work
            if isinstance(answer, StreamedAnswer):
                await self._stream(answer)
            elif isinstance(answer, SocketAnswer):
                await self._talk(answer)
            else:
                self._respond(answer)
        except WebRefusal as refusal:
            self._respond(self._driver.refused(refusal))
        except Exception as error:  # noqa: BLE001  # as in `request_received`
            self._fail(error)
        self._task = None
        self.channel.resume()

    def _check_visitor(self, request: HttpRequest) -> None:
        """Raises WebRefusal(403) for a stranger's page: a browser lets it use its user's place in the network."""
        visitors = self._driver.visitors
        if visitors is None:
            return
        if not visitors.knows_host(request.headers):
            host = request.headers.get("host", "")[:100]
            raise WebRefusal(403, f"{host!r} is no name of this server: its setting `hosts` may name it")
        if not visitors.allows(request.headers):
            raise WebRefusal(403, "pages of this origin may not connect: the setting `origins` may name it")

    def _respond(self, answer: WebAnswer) -> None:
        http = self.channel.http
        # Behind the head of a streamed answer there is no place for another: the client sees that it is cut off.
        if not http.is_answering or self.is_streaming:
            http.is_finished = True
            return
        self._driver.answers_total[answer.status] += 1
        http.respond(answer.status, self._fields(answer), answer.body, answer.pieces)

    def _fail(self, error: Exception) -> None:
        assert self._request is not None
        self._driver.report(error, self._request)
        self._respond(self._driver.refused(_FAILED))

    async def _stream(self, answer: StreamedAnswer) -> None:
        http, request = self.channel.http, cast(HttpRequest, self._request)
        self._driver.answers_total[answer.status] += 1
        http.begin_response(answer.status, self._fields(answer))
        self.is_streaming = True
        # The first chunk may come much later, and the client wants to know that it was let in.
        self.channel.send()
        try:
            if request.method != "HEAD":
                async for chunk in answer.chunks:
                    http.send(chunk)
                    self.channel.send()
                    await self._until_writable()
        finally:
            await _close(answer.chunks)
        self.is_streaming = False
        http.end()

    async def _talk(self, answer: SocketAnswer) -> None:
        """Send the messages of a WebSocket. Its end closes the connection."""
        http, request = self.channel.http, cast(HttpRequest, self._request)
        try:
            refusal = websocket_refusal(request.headers)
            if refusal is not None:
                raise WebRefusal(*refusal, headers=[("Sec-WebSocket-Version", "13")] if refusal[0] == 426 else ())
            self._driver.answers_total[_SWITCHED] += 1
            http.accept_websocket(cast(str, websocket_key(request.headers)))
            self.is_streaming = True
            socket = cast("WebSocket", http.websocket)
            self.channel.send()
            async for text in answer.texts:
                if text is None:
                    socket.ping()
                else:
                    socket.send_text(text)
                self.channel.send()
                await self._until_writable()
            socket.close(_NORMAL_CLOSURE)
        finally:
            await _close(answer.texts)

    async def _until_writable(self) -> None:
        if self._is_paused:
            self._writable = self._driver.loop.create_future()
            await self._writable

    def _sending_changed(self, is_paused: bool) -> None:
        self._is_paused = is_paused
        if not is_paused and self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def _fields(self, answer: WebAnswer | StreamedAnswer) -> list[tuple[str, str]]:
        wall_s = self._driver.clock.wall_ms() // 1000
        fields = [
            ("Date", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(wall_s))),
            # Nothing is kept by browsers and proxies, unless the handler says how.
            *(() if any(name == "Cache-Control" for name, _ in answer.headers) else [("Cache-Control", "no-store")]),
            ("X-Content-Type-Options", "nosniff"),
            *answer.headers,
        ]
        visitors, request = self._driver.visitors, self._request
        if visitors is not None and request is not None:
            fields += visitors.cross_origin(request.headers)
        return fields if answer.status in (204, 304) else [("Content-Type", answer.content_type), *fields]


def _handle(route: WebRoute, request: WebRequest, principal: Principal) -> "Answer | Awaitable[Answer]":
    route.check_body(request.headers.get("content-type", ""), request.body)
    return route.handler(request.by(principal))


async def _handle_admitted(route: WebRoute, request: WebRequest, admitted: Awaitable[Principal]) -> Answer:
    answer = _handle(route, request, await admitted)
    return await answer if isinstance(answer, Awaitable) else answer


async def _refuse_admitted(admitted: Awaitable[Principal], refusal: WebRefusal) -> Answer:
    await admitted
    raise refusal


async def _close(parts: AsyncIterator[Any]) -> None:
    """Let the maker of an answer clean up, if it is a generator."""
    aclose = cast("Callable[[], Coroutine[Any, Any, None]] | None", getattr(parts, "aclose", None))
    if aclose is not None:
        await aclose()


def _split_target(target: str) -> tuple[str, str]:
    """Path and query. RFC 9112, 3.2.2: a server takes the absolute form, too."""
    if not target.startswith("/"):
        try:
            parts = urlsplit(target)
        except ValueError:
            raise WebRefusal(400, "the target of the request is no path") from None
        if parts.scheme not in ("http", "https"):
            raise WebRefusal(400, "the target of the request is no path")
        return parts.path or "/", parts.query
    path, _, query = target.partition("?")
    return path, query
