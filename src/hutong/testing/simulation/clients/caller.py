"""A program that calls a service over connections, by the client of `hutong.rpc`, at any guarantee.

Strategy: calls overlap, some with a timeout that is shorter than the work they ask for. Some are abandoned, and now and
then the client is closed with calls under way. What the client says of each call is noted where it says it, so that an
answer too many is seen. At the end a call of each guarantee must succeed.
"""

import asyncio
from contextlib import aclosing
from typing import Any, Final

from hutong.foundation.errors import HutongError
from hutong.rpc.call import Done, IncomingCall, Outcome
from hutong.rpc.calling.transport import Abandon, Ended, OutgoingCall, Transport
from hutong.rpc.delivery.caller.retry import Pace
from hutong.rpc.errors import CallFailed, error_of
from hutong.rpc.options import Delivery
from hutong.rpc.remote.client import Client
from hutong.rpc.tracing import Dispatch
from hutong.testing.simulation.call_history import (
    CallAbandoned,
    CallAnswered,
    CallBegun,
    CallerClosed,
    CallUnanswered,
    StreamRead,
)
from hutong.testing.simulation.clients.client import ClientContext
from hutong.testing.simulation.hosts.host import SimProcess
from hutong.testing.simulation.plan.clients import PlannedCaller
from hutong.testing.simulation.services import RPC_PORT, Desk, DeskOrder, DeskReceipt, DeskRefusal

LAST_TIMEOUT_MS: Final = 2_000
LEFT: Final = "left"
"""In the place of an error: the reader of a stream wanted no more."""
_NOBODY: Final = "nobody"
"""An address without a service."""
_RETRY_S: Final = 0.2


class SimCaller:
    """Calls the desk of one node."""

    def __init__(self, context: ClientContext, plan: PlannedCaller) -> None:
        self.context = context
        self._plan = plan
        self._random = context.random
        self._is_stopping = False
        self._calls_total = 0
        self._under_way: list[asyncio.Task[Any]] = []
        self._deliveries = [Delivery.AT_MOST_ONCE, Delivery.AT_LEAST_ONCE]
        if plan.is_remembered:
            self._deliveries.append(Delivery.DEDUPLICATED)

    @property
    def _process(self) -> SimProcess:
        assert self.context.host.process is not None
        return self.context.host.process

    def stop(self) -> None:
        self._is_stopping = True

    async def run(self) -> None:
        client, random = self._new_client(), self._random
        while not self._is_stopping:
            self._begin_some(client)
            await asyncio.sleep(self._plan.pause_ms / 1_000 * 2 * random.random())
            # Its answer may be on its way, or not even the connection be open.
            if self._plan.stream_items and random.random() < 0.1:
                self._under_way.append(self._process.loop.create_task(self._read_stream(client)))
            if self._under_way and random.random() < 0.1:
                random.choice(self._under_way).cancel()
            # Seldom: most faults shall meet a client that stays.
            if random.random() < 0.01:
                await self._close(client)
                client = self._new_client()
        # The promise that each call ends is the checker's; here it only has to come true.
        if self._under_way:
            await asyncio.wait(self._under_way)
        for delivery in self._deliveries:
            await self._succeed(client, delivery)
        await self._close(client)

    def _new_client(self) -> Client:
        context, plan = self.context, self._plan
        client = Client(
            f"{context.nodes[0][0]}:{RPC_PORT}",
            clock=self._process.clock,
            pace=Pace(first_pause_ms=plan.first_pause_ms, first_patience_ms=plan.first_patience_ms),
            random=self._random,
        )
        client.set_tracer(_Observer(context))
        return client

    async def _close(self, client: Client) -> None:
        self.context.history.add(CallerClosed(self._process.world.now_us, self.context.name))
        await client.close()

    def _begin_some(self, client: Client) -> None:
        random, plan = self._random, self._plan
        self._under_way = [task for task in self._under_way if not task.done()]
        for _ in range(random.choice((1, 1, plan.calls_together))):
            # Of both kinds on one connection, as their frames share its numbers.
            delivery = random.choice(self._deliveries)
            order, address = self._order(), _NOBODY if random.random() < 0.02 else None
            call = self._call(client, delivery, plan.timeout_ms, order, address)
            self._under_way.append(self._process.loop.create_task(call))

    async def _succeed(self, client: Client, delivery: Delivery) -> None:
        while True:
            self._calls_total += 1
            if await self._call(
                client, delivery, LAST_TIMEOUT_MS, DeskOrder(f"{self.context.name}/{self._calls_total}")
            ):
                return
            await asyncio.sleep(_RETRY_S)

    def _order(self) -> DeskOrder:
        random, plan = self._random, self._plan
        self._calls_total += 1
        return DeskOrder(
            f"{self.context.name}/{self._calls_total}",
            wait_before_ms=random.choice((0, plan.work_ms)),
            wait_after_ms=random.choice((0, plan.work_ms)),
            is_refused=random.random() < 0.1,  # an answer like any other: it must not be tried again
            padding="." * random.choice((0, plan.padding_characters)),
        )

    async def _call(
        self, client: Client, delivery: Delivery, timeout_ms: int, order: DeskOrder, address: str | None = None
    ) -> bool:
        """Call; True where it succeeded."""
        retries = self._plan.retries
        # One that is remembered may be sent again and again, and has one effect at most.
        attempts_max = 1 + retries if delivery is Delivery.AT_LEAST_ONCE else 1
        now_us, name = self._process.world.now_us, self.context.name
        self.context.history.add(CallBegun(now_us, name, order.name, attempts_max, timeout_ms))
        desk = client.proxy(Desk, address=address, timeout=timeout_ms / 1_000, retries=retries, delivery=delivery)
        try:
            await desk.carry_out(order)
        # The service has answered, as it should.
        except DeskRefusal:
            return True
        except CallFailed:
            return False
        return True

    async def _read_stream(self, client: Client) -> None:
        random, plan = self._random, self._plan
        self._calls_total += 1
        name, expected, items = f"{self.context.name}/{self._calls_total}", plan.stream_items, list[int]()
        # Some readers leave in the middle.
        wanted, error = random.choice((expected, expected, expected // 2)), ""
        stream: Any = client.proxy(Desk, timeout=plan.timeout_ms / 1_000).count(name, expected, plan.work_ms // 10)
        try:
            async with aclosing(stream):
                async for item in stream:
                    items.append(item)
                    if len(items) == wanted < expected:
                        error = LEFT
                        break
        except CallFailed as failure:
            error = type(failure).__name__
        read = StreamRead(self._process.world.now_us, self.context.name, name, tuple(items), expected, error)
        self.context.history.add(read)


class _Observer:
    """Notes what a client says of its calls (a `CallTracer`)."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context

    def carrying(self, transport: Transport, service: str) -> Transport:
        return _ObservedTransport(transport, self._context)

    def serving(self, service: str, action: str, call: IncomingCall, done: Done, dispatch: Dispatch) -> None:
        raise AssertionError("a caller has no services")


class _ObservedTransport:
    def __init__(self, transport: Transport, context: ClientContext) -> None:
        self._transport = transport
        self._context = context

    def begin_call(self, call: OutgoingCall, timeout_ms: int, done: Ended) -> Abandon:
        context, order = self._context, getattr(call.arguments, "order", None)
        history, world = context.history, context.host.world
        # Of a stream its reader notes everything.
        if not isinstance(order, DeskOrder):
            return self._transport.begin_call(call, timeout_ms, done)

        # Noted here and not where the call is awaited: a second end would be seen by nobody there.
        def ended(outcome: Outcome | HutongError) -> None:
            history.add(end_of(world.now_us, context.name, order.name, outcome))
            done(outcome)

        def abandoned() -> None:
            history.add(CallAbandoned(world.now_us, context.name, order.name))
            abandon()

        abandon = self._transport.begin_call(call, timeout_ms, ended)
        return abandoned


def end_of(at_us: int, client: str, name: str, outcome: Outcome | HutongError) -> CallAnswered | CallUnanswered:
    """The end of a call as the history has it."""
    if isinstance(outcome, HutongError):
        return CallUnanswered(at_us, client, name, type(outcome).__name__)
    if outcome.failure is None:
        receipt: DeskReceipt = outcome.value
        return CallAnswered(at_us, client, name, receipt.name, receipt.number)
    # A failure that the desk does not know: of its memory, of the dispatcher, or of a codec.
    if outcome.failure.code != DeskRefusal.code:
        return CallUnanswered(at_us, client, name, type(error_of(outcome.failure, {})).__name__)
    answer, _, number = outcome.failure.message.partition(" ")
    return CallAnswered(at_us, client, name, answer, number)
