"""Our own bus as a contender of `python -m bench bus`. Everything lives in one event-loop context."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Self

import msgspec

from bench.bus_contenders import (
    ADDRESS,
    HEADERS,
    ORDER,
    TEXT,
    Contender,
    Handle,
    HandleLater,
    Looker,
    Order,
    Send,
    copied,
)
from hutong.bus import Delivery, DeliveryOptions, EventBus, Headers
from hutong.foundation.clock import SystemClock
from hutong.runtime.runtime import Runtime

ECHO: Final = "echo"
AWAITED_PER_LOOK: Final = 10  # requests between two looks at the clock


class OrderCodec:
    """A user's codec for their own type."""

    name = "order"

    def encode(self, body: Order) -> bytes:
        return msgspec.json.encode(body)

    def decode(self, data: bytes) -> Order:
        return msgspec.json.decode(data, type=Order)

    def transform(self, body: Order) -> Order:
        return copied(body)


class Hutong(Contender):
    """A bus for each turn, so that no turn pays for another's features."""

    name = "hutong"

    async def __aenter__(self) -> Self:
        self._runtime = Runtime(SystemClock())
        self._context = self._runtime.context()
        self._echo = EventBus(self._runtime)
        self._echo.consumer(ECHO, lambda message: message.reply(message.body), context=self._context)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runtime.close()

    def plain(self, handle: Handle) -> Send:
        bus = EventBus(self._runtime)
        bus.consumer(ADDRESS, handle, context=self._context)
        return partial(bus.send, ADDRESS, TEXT)

    def whole(self, handle: Handle) -> Send:
        bus, out, inward = EventBus(self._runtime), Looker(), Looker()

        def look_out(delivery: Delivery) -> None:
            out.look(delivery)
            delivery.next()

        def look_in(delivery: Delivery) -> None:
            inward.look(delivery)
            delivery.next()

        bus.register_codec(OrderCodec(), default_for=Order)
        bus.add_outbound_interceptor(look_out)
        bus.add_inbound_interceptor(look_in)
        bus.consumer(ADDRESS, handle, context=self._context)
        return partial(bus.send, ADDRESS, ORDER, DeliveryOptions(headers=Headers(HEADERS)))

    def coroutines(self, handle: HandleLater) -> Send:
        bus = EventBus(self._runtime)
        bus.consumer(ADDRESS, handle, context=self._context)
        return partial(bus.send, ADDRESS, TEXT)

    def request(self, answered: Callable[[object], None]) -> None:
        self._echo.request(ECHO, TEXT).then(answered)

    async def awaited(self, window: int, seconds: float) -> float:
        """Answers a second to that many coroutines, each awaiting one request after the other."""
        bus, until_s = self._echo, time.perf_counter() + seconds

        async def ask() -> int:
            answered_total = 0
            while time.perf_counter() < until_s:
                for _ in range(AWAITED_PER_LOOK):
                    await bus.request(ECHO, TEXT)
                answered_total += AWAITED_PER_LOOK
            return answered_total

        begun_s = time.perf_counter()
        answered = await asyncio.gather(*(ask() for _ in range(window)))
        return sum(answered) / (time.perf_counter() - begun_s)
