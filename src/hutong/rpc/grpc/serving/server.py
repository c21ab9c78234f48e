"""The gRPC server: bound services, for stock gRPC clients in any language.

Strategy: grpc.aio is the transport, on the loop that opened the server. A call's path names service and method. The
dispatcher at the service's address executes the call in its own context, and the server's task parks until the outcome
is there. A service that was never bound is UNIMPLEMENTED; one that is no longer bound is UNAVAILABLE.

A caller that disconnects, or whose deadline passes, ends the task and its wait. The implementation of a unary method
continues, as it does for callers on the bus. Knows no implementation and no types.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

import grpc

from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode, LimitExceeded, OwnerGone, UsageError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.numbered import NumberedWaitTable
from hutong.foundation.waiting.table import NEVER
from hutong.rpc.call import Done, IncomingCall, Outcome
from hutong.rpc.descriptions.description import ResultKind, ServiceDescription
from hutong.rpc.errors import DispatchFailed
from hutong.rpc.grpc.limits import GrpcLimits
from hutong.rpc.grpc.serving.incoming import AwaitedOutcome, GrpcCall
from hutong.rpc.grpc.serving.metadata import headers_of, metadata_of
from hutong.rpc.grpc.serving.offers import Bound, Offer, Offers
from hutong.rpc.grpc.serving.pulling import END, Pulling, Streaming
from hutong.rpc.grpc.serving.reflection import PATHS, QUESTION_BYTES_MAX, ReflectionTooLarge, reflect, reflection_codec
from hutong.rpc.grpc.serving.statuses import Ending, ending_of, shortened

A = TypeVar("A")
_NOT_SENT: Final = "the request was not sent in time"
_SILENT: Final = "the stream was silent too long, or its answers were not taken"
_NOT_TAKEN: Final = "an item of the stream was not taken in time"


class Answering(Streaming, Protocol):
    """A dispatcher that executes calls. To a call that `takes_streams` it answers with an async iterator."""

    def submit(self, call: IncomingCall, done: Done) -> None:
        """Execute it soon, and call `done` on any thread. Raises LimitExceeded."""


class AnsweringRotation(Protocol):
    """The dispatchers at one address."""

    @property
    def is_empty(self) -> bool: ...

    def next_dispatcher(self) -> Answering:
        """Return the next dispatcher in turn."""


class Refusal(Exception):
    """A call ends without a result: with a status."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.message)
        self.ending = ending


class GrpcServer(grpc.GenericRpcHandler):  # type: ignore[misc]  # gRPC has no types
    """Made on the loop that it is to run on; `listen` once, then `close`.

    `find(address)` returns its dispatchers; `bound()` the services that are offered without `add`. `credentials` are
    gRPC's (`grpc.ssl_server_credentials`); without, nothing is encrypted. `address` is HOST:PORT once it listens.
    """

    address: str

    def __init__(
        self,
        find: Callable[[str], AnsweringRotation | None],
        bound: Bound = tuple,
        *,
        clock: Clock,
        wheel: TimerWheel,
        limits: GrpcLimits | None = None,
        credentials: Any = None,
    ) -> None:
        self.limits = limits or GrpcLimits()
        self.offers = Offers(bound)
        self._find = find
        self._clock = clock
        self._credentials = credentials
        self._loop = asyncio.get_running_loop()
        self.waits: NumberedWaitTable[Outcome] = NumberedWaitTable(
            "grpc_calls_max", wheel, clock, self.limits.calls_max, self._post
        )
        self._queue = self.waits.queue(NEVER)  # gRPC itself ends a call whose deadline passes
        self._server: Any = None
        self._calls: Counter[str] = Counter()  # under way, by the address of their client
        self._reflection = self._reflection_handler()

    def add(self, service: ServiceDescription, *, address: str | None = None, package: str | None = None) -> str:
        """Offer a service by its name over gRPC, which is returned: `package` and the Protocol's name.

        Raises UsageError where its signatures have no equal there.
        """
        return self.offers.add(service, address, package)

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Accept clients; returns host and port, which is the one bound for port 0. Raises UsageError."""
        limits = self.limits
        self._server = server = grpc.aio.server(
            handlers=[self],
            options=[
                ("grpc.max_receive_message_length", limits.message_bytes_max),
                ("grpc.max_send_message_length", limits.message_bytes_max),
                # gRPC refuses at random between the two bounds; one and the same bound refuses always.
                ("grpc.max_metadata_size", limits.metadata_bytes_max),
                ("grpc.absolute_max_metadata_size", limits.metadata_bytes_max),
                ("grpc.max_concurrent_streams", limits.streams_per_connection_max),
                ("grpc.max_allowed_incoming_connections", limits.connections_max),
                ("grpc.server_handshake_timeout_ms", limits.handshake_ms),
                ("grpc.max_connection_idle_ms", limits.connection_idle_ms),
                ("grpc.keepalive_time_ms", limits.keepalive_ms),
                ("grpc.so_reuseport", 0),  # otherwise two programs could listen on one port, without an error
            ],
            maximum_concurrent_rpcs=limits.calls_max,
        )
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if self._credentials is None:
                bound = server.add_insecure_port(where)
            else:
                bound = server.add_secure_port(where, self._credentials)
        except RuntimeError:
            raise UsageError(
                f"Cannot listen on {where} for gRPC; is the port in use? Choose another one.", ExitCode.UNAVAILABLE
            ) from None
        await server.start()
        self.address = f"{where.rpartition(':')[0]}:{bound}"
        return host, int(bound)

    async def close(self) -> None:
        """Take no more calls; those under way have `close_grace_ms` to end. A second call does nothing."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(self.limits.close_grace_ms / 1_000)
        self.waits.close(OwnerGone("the gRPC server has been closed"))

    def _post(self, work: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    def service(self, handler_call_details: Any) -> Any:
        """For gRPC: the handler of a path. None is UNIMPLEMENTED."""
        path = handler_call_details.method
        if path in PATHS:
            return self._reflection
        offer = self.offers.find(path)
        if offer is None:
            return None
        if offer.handler is None:
            offer.handler = self._handler_of(offer)
        return offer.handler

    def _handler_of(self, offer: Offer) -> Any:
        """Make a handler of bytes, so that errors in requests get our messages.

        The request is read here, as the only one of a stream: gRPC itself would wait for it without a limit, and a call
        counts from its headers on.
        """

        async def unary(_: object, context: Any) -> bytes | None:
            return await self._answered(context, self._unary(offer, context))

        async def stream(_: object, context: Any) -> None:
            await self._answered(context, self._stream(offer, context))

        if offer.conversion.mapping.method.kind is ResultKind.STREAM:
            return grpc.stream_stream_rpc_method_handler(stream)
        return grpc.stream_unary_rpc_method_handler(unary)

    def _reflection_handler(self) -> Any:
        async def stream(_: object, context: Any) -> None:
            await self._answered(context, self._reflect(context))

        read, write = reflection_codec()
        return grpc.stream_stream_rpc_method_handler(stream, request_deserializer=read, response_serializer=write)

    async def _reflect(self, context: Any) -> None:
        try:
            await reflect(self.offers, context, self.limits.request_ms, self.limits.item_taken_ms)
        except TimeoutError:
            raise Refusal(Ending(grpc.StatusCode.DEADLINE_EXCEEDED, _SILENT)) from None
        except ReflectionTooLarge:
            raise Refusal(_exhausted(LimitExceeded("QUESTION_BYTES_MAX", QUESTION_BYTES_MAX))) from None

    async def _answered(self, context: Any, answer: Coroutine[Any, Any, A]) -> A | None:
        """Answer the call, unless its client has too many in progress; that and every failure end with a status."""
        address = context.peer().rpartition(":")[0]  # without the port
        self._count(address, context)
        try:
            if self._calls[address] > self.limits.calls_per_address_max:
                # Closed unawaited, or Python would warn of a coroutine that never ran.
                answer.close()
                raise Refusal(_exhausted(LimitExceeded("calls_per_address_max", self.limits.calls_per_address_max)))
            return await answer
        except Refusal as refusal:
            ending = refusal.ending
        except DispatchFailed as error:  # a result that does not fit
            ending = Ending(grpc.StatusCode.INTERNAL, shortened(error.message))
        await context.abort(ending.status, ending.message, ending.trailers)  # which raises
        return None

    def _count(self, address: str, context: Any) -> None:
        """Count a call of this address as under way until gRPC has ended it.

        That is later than our task where the client does not read: the status comes behind all that was written, and
        gRPC waits with it, and counts the call, for as long as the connection lasts.
        """
        self._calls[address] += 1

        def ended(_: object) -> None:
            self._calls[address] -= 1
            if not self._calls[address]:
                del self._calls[address]

        context.add_done_callback(ended)

    async def _request(self, context: Any) -> bytes:
        """Raises Refusal where it does not come in time, or not at all."""
        try:
            async with asyncio.timeout(self.limits.request_ms / 1_000):
                request = await context.read()
        except TimeoutError:
            raise Refusal(Ending(grpc.StatusCode.DEADLINE_EXCEEDED, _NOT_SENT)) from None
        if request is grpc.aio.EOF:
            raise Refusal(Ending(grpc.StatusCode.INVALID_ARGUMENT, "the call ended before its request"))
        return request  # type: ignore[no-any-return]  # gRPC has no types

    async def _unary(self, offer: Offer, context: Any) -> bytes:
        request = await self._request(context)
        # The dispatcher is found after the request has come: the service may be unbound in between.
        outcome = await self._outcome(offer, request, context, self._answering(offer))
        response = self._response(offer, outcome)
        if outcome.headers:
            context.set_trailing_metadata(metadata_of(outcome.headers))
        return response

    async def _stream(self, offer: Offer, context: Any) -> None:
        """Write the items as the caller takes them: the next one is asked for when the last has left."""
        request = await self._request(context)
        answering = self._answering(offer)
        opened = await self._outcome(offer, request, context, answering)
        pulling = Pulling(opened.value, answering, offer.conversion.mapping.method.name)
        try:
            while (item := await self._parked(pulling.ask)) is not END:
                if item.failure is not None:
                    raise Refusal(ending_of(item.failure, offer.service))
                response = self._response(offer, item)
                async with asyncio.timeout(self.limits.item_taken_ms / 1_000):
                    await context.write(response)
        except TimeoutError:
            raise Refusal(Ending(grpc.StatusCode.DEADLINE_EXCEEDED, _NOT_TAKEN)) from None
        finally:
            # In `finally`: gRPC cancels this task when the caller disconnects, and the iterator must end as well.
            pulling.close()

    def _answering(self, offer: Offer) -> Answering:
        """Return the dispatcher of a call. Raises Refusal."""
        found = self._find(offer.address)
        # Another thread may unbind the last service just now: its rotation is emptied before it is dropped.
        if found is None or found.is_empty:
            raise Refusal(Ending(grpc.StatusCode.UNAVAILABLE, f"nobody is bound at {offer.address!r} now"))
        return found.next_dispatcher()

    async def _outcome(self, offer: Offer, request: bytes, context: Any, answering: Answering) -> Outcome:
        """Of a call that was executed without failure. Raises Refusal."""
        call = self._call_of(offer, request, context)
        outcome = await self._parked(lambda done: answering.submit(call, done))
        if outcome.failure is not None:
            raise Refusal(ending_of(outcome.failure, offer.service, is_callers=call.has_bad_arguments))
        return outcome

    async def _parked(self, begin: Callable[[Done], None]) -> Outcome:
        """Park until the call that `begin` starts has an outcome. Raises Refusal."""
        wait = AwaitedOutcome(self._loop)
        try:
            self._queue.park(wait)
        except LimitExceeded as error:
            raise Refusal(_exhausted(error)) from None
        try:
            begin(wait.resume)
            return await wait.future
        except LimitExceeded as error:
            raise Refusal(_exhausted(error)) from None
        except OwnerGone as error:
            raise Refusal(Ending(grpc.StatusCode.UNAVAILABLE, str(error))) from None
        finally:
            # A cancelled task must leave no wait behind, which would count against `grpc_calls_max`.
            wait.abandon()

    def _response(self, offer: Offer, outcome: Outcome) -> bytes:
        """Raises Refusal, DispatchFailed."""
        response = offer.conversion.response(outcome.value, is_encoded=outcome.is_encoded)
        if len(response) > self.limits.message_bytes_max:
            raise Refusal(_exhausted(LimitExceeded("message_bytes_max", self.limits.message_bytes_max)))
        return response

    def _call_of(self, offer: Offer, request: bytes, context: Any) -> GrpcCall:
        remaining_seconds = context.time_remaining()
        deadline_ms = None
        if remaining_seconds is not None:
            # Never before now, even where the deadline has just passed.
            deadline_ms = self._clock.monotonic_ms() + max(0, int(remaining_seconds * 1_000))
        return GrpcCall(
            address=offer.address,
            action=offer.conversion.mapping.method.name,
            header_pairs=headers_of(context.invocation_metadata() or ()),
            peer=context,
            deadline_ms=deadline_ms,
            takes_streams=True,
            request=request,
            conversion=offer.conversion,
        )


def _exhausted(error: LimitExceeded) -> Ending:
    return Ending(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
