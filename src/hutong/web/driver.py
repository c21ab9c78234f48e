"""Carries requests to the handlers of their routes, and answers to connections: whole, later, or streamed.

Strategy: a request is admitted first (credentials), then routed, then checked (its body's type), then handled. A
handler returns its answer or is a coroutine, which runs as a task of its connection and ends with it. A streamed answer
waits while its client does not read. A handler that fails is reported to the loop and answered with 500.

Decides nothing about bytes; knows no application.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit

from hutong.foundation.clock import Clock
from hutong.reactor.connections.channel import Response
from hutong.reactor.connections.handler import Peer
from hutong.security.principals import Principal
from hutong.web.answers import Answer, StreamedAnswer, WebAnswer, WebRefusal, refused_in_text
from hutong.web.channel import HttpChannel
from hutong.web.messages import HttpFault, HttpRequest
from hutong.web.requests import WebRequest, decode_query
from hutong.web.routes import WebRoute, WebRoutes
from hutong.wire.buffer import Buffer

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
    ) -> None:
        """`refused` makes the answer of a refusal, in the form that the application's clients expect."""
        self.routes = routes
        self.admission = admission
        self.loop = loop
        self.clock = clock
        self.refused = refused
        self._visits: set[_Visit] = set()

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

    __slots__ = ("_driver", "_is_paused", "_is_streaming", "_request", "_task", "_writable", "channel")

    is_holding = False  # no WebSocket is served by routes

    def __init__(self, driver: WebDriver, peer: Peer) -> None:
        self._driver = driver
        self.channel = HttpChannel(peer, driver.loop.call_soon, self)
        self._task: asyncio.Task[None] | None = None
        self._request: HttpRequest | None = None
        self._is_streaming = False
        self._is_paused = False
        self._writable: asyncio.Future[None] | None = None
        peer.sending_changed = self._sending_changed

    def when_taken(self, then: Callable[[], None]) -> None:
        then()

    def fault_received(self, fault: HttpFault) -> None:
        answer = self._driver.refused(WebRefusal(fault.status, fault.text))
        self.channel.http.refuse(answer.status, answer.body, self._fields(answer))

    def message_received(self, text: str) -> None:
        raise AssertionError("no WebSocket is accepted")

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
        if self._is_streaming:
            self.cancel()
            self.channel.peer.close()

    # Steps of a request.

    def _begin(self, request: HttpRequest) -> "Answer | Awaitable[Answer]":
        driver, peer = self._driver, self.channel.peer
        path, query = _split_target(request.target)
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
            return route.handler(seen)
        admitted = driver.admission.admit(request, peer)
        if isinstance(admitted, Principal):
            return _handle(route, seen, admitted)
        return _handle_admitted(route, seen, admitted)

    async def _finish(self, work: "StreamedAnswer | Awaitable[Answer]") -> None:
        """Give the answer that comes later. A task of the connection: cancelled once the client is gone."""
        try:
            answer = work if isinstance(work, StreamedAnswer) else await work
            if isinstance(answer, StreamedAnswer):
                await self._stream(answer)
            else:
                self._respond(answer)
        except WebRefusal as refusal:
            self._respond(self._driver.refused(refusal))
        except Exception as error:  # noqa: BLE001  # as in `request_received`
            self._fail(error)
        self._task = None
        self.channel.resume()

    def _respond(self, answer: WebAnswer) -> None:
        http = self.channel.http
        # Behind the head of a streamed answer there is no place for another: the client sees that it is cut off.
        if not http.is_answering or self._is_streaming:
            http.is_finished = True
            return
        http.respond(answer.status, self._fields(answer), answer.body, answer.pieces)

    def _fail(self, error: Exception) -> None:
        assert self._request is not None
        self._driver.report(error, self._request)
        self._respond(self._driver.refused(_FAILED))

    async def _stream(self, answer: StreamedAnswer) -> None:
        http, request = self.channel.http, cast(HttpRequest, self._request)
        http.begin_response(answer.status, self._fields(answer))
        self._is_streaming = True
        try:
            if request.method != "HEAD":
                async for chunk in answer.chunks:
                    http.send(chunk)
                    self.channel.send()
                    await self._until_writable()
        finally:
            await _close(answer)
        self._is_streaming = False
        http.end()

    async def _until_writable(self) -> None:
        if self._is_paused:
            self._writable = self._driver.loop.create_future()
            await self._writable

    def _sending_changed(self, is_paused: bool) -> None:
        self._is_paused = is_paused
        if not is_paused and self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def _fields(self, answer: Answer) -> list[tuple[str, str]]:
        wall_s = self._driver.clock.wall_ms() // 1000
        fields = [
            ("Date", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(wall_s))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            *answer.headers,
        ]
        return fields if answer.status in (204, 304) else [("Content-Type", answer.content_type), *fields]


def _handle(route: WebRoute, request: WebRequest, principal: Principal) -> "Answer | Awaitable[Answer]":
    route.check_body(request.headers.get("content-type", ""), request.body)
    return route.handler(request.by(principal))


async def _handle_admitted(route: WebRoute, request: WebRequest, admitted: Awaitable[Principal]) -> Answer:
    answer = _handle(route, request, await admitted)
    return answer if isinstance(answer, WebAnswer | StreamedAnswer) else await answer


async def _refuse_admitted(admitted: Awaitable[Principal], refusal: WebRefusal) -> Answer:
    await admitted
    raise refusal


async def _close(answer: StreamedAnswer) -> None:
    """Let the maker of the chunks clean up, if it is a generator."""
    aclose = cast("Callable[[], Coroutine[Any, Any, None]] | None", getattr(answer.chunks, "aclose", None))
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
