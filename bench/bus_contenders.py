"""The contenders of `python -m bench bus`, each doing the same job in the way its own documentation shows.

The job: one message of 100 characters to one address with one handler. The whole job: two headers, a value of a class
of the user's own that the handler gets as its own copy, and something that looks at every message on the way out and on
the way in. Where a library has no such thing, its user would write what stands here.

Knows nothing of clocks and turns.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

import aiopubsub
import blinker
from pyee.asyncio import AsyncIOEventEmitter
from pyee.base import EventEmitter

ADDRESS: Final = "orders"
TEXT: Final = "x" * 100
HEADERS: Final = {"tenant": "hutong", "trace": "0af7651916cd43dd8448eb211c80319c"}

Handle = Callable[[object], None]
HandleLater = Callable[[object], Coroutine[Any, Any, None]]
Send = Callable[[], object]


@dataclass(slots=True)
class Order:
    """A value that both sides could change."""

    number: int
    name: str
    price: float


ORDER: Final = Order(12345, "x" * 50, 1.5)


def copied(order: Order) -> Order:
    """A codec's work on it in one process."""
    return Order(order.number, order.name, order.price)


class Looker:
    """An interceptor's work."""

    def __init__(self) -> None:
        self.seen_total = 0

    def look(self, event: object) -> None:
        self.seen_total += 1


@dataclass(slots=True)
class Event:
    """A message with headers, as a user of a bare emitter would write it."""

    headers: dict[str, str]
    body: Any


class Around:
    """Headers, codecs by type and interceptors around a bare emitter, as a user would write them."""

    def __init__(self, handle: "Handle") -> None:
        self._handle = handle
        self._codecs = {Order: copied}
        self._out = [Looker().look]
        self._inward = [Looker().look]

    def sent(self, body: Order, headers: dict[str, str]) -> Event:
        codec = self._codecs.get(type(body))
        event = Event(dict(headers), body if codec is None else codec(body))
        for look in self._out:
            look(event)
        return event

    def received(self, event: Event) -> None:
        for look in self._inward:
            look(event)
        self._handle(event)


class Contender(Protocol):
    """One way to get a message from here to there. Each method returns what sends one message to `handle`."""

    name: str

    def plain(self, handle: Handle) -> Send: ...

    def whole(self, handle: Handle) -> Send: ...

    def coroutines(self, handle: HandleLater) -> Send | None:
        """None if its handlers cannot be coroutines."""
        ...

    async def rest(self) -> None:
        """End what the turn has begun."""


class Pyee(Contender):
    """Handlers run inside `emit`; coroutines become tasks."""

    name = "pyee"

    def plain(self, handle: Handle) -> Send:
        emitter = EventEmitter()
        emitter.add_listener(ADDRESS, handle)
        return partial(emitter.emit, ADDRESS, TEXT)

    def whole(self, handle: Handle) -> Send:
        emitter, around = EventEmitter(), Around(handle)
        emitter.add_listener(ADDRESS, around.received)
        return lambda: emitter.emit(ADDRESS, around.sent(ORDER, HEADERS))

    def coroutines(self, handle: HandleLater) -> Send:
        emitter = AsyncIOEventEmitter()
        emitter.add_listener(ADDRESS, handle)
        return partial(emitter.emit, ADDRESS, TEXT)


class Blinker(Contender):
    """Handlers run inside `send`."""

    name = "blinker"

    def plain(self, handle: Handle) -> Send:
        signal = blinker.Signal()
        signal.connect(handle, weak=False)
        return partial(signal.send, TEXT)

    def whole(self, handle: Handle) -> Send:
        signal, around = blinker.Signal(), Around(handle)
        signal.connect(around.received, weak=False)
        return lambda: signal.send(around.sent(ORDER, HEADERS))

    def coroutines(self, handle: HandleLater) -> None:
        return None  # `send_async` waits for every receiver: another job


class Aiopubsub(Contender):
    """Handlers run inside `publish`; coroutines are fed by a queue and a task for each listener."""

    name = "aiopubsub"
    _subscriber: aiopubsub.Subscriber | None = None

    def plain(self, handle: Handle) -> Send:
        hub = aiopubsub.Hub()
        aiopubsub.Subscriber(hub, "bench").add_sync_listener(
            aiopubsub.Key("bench", ADDRESS), lambda key, body: handle(body)
        )
        publisher, key = aiopubsub.Publisher(hub, "bench"), aiopubsub.Key(ADDRESS)
        return partial(publisher.publish, key, TEXT)

    def whole(self, handle: Handle) -> Send:
        hub, around = aiopubsub.Hub(), Around(handle)
        subscriber = aiopubsub.Subscriber(hub, "bench")
        subscriber.add_sync_listener(aiopubsub.Key("bench", ADDRESS), lambda key, event: around.received(event))
        publisher, key = aiopubsub.Publisher(hub, "bench"), aiopubsub.Key(ADDRESS)
        return lambda: publisher.publish(key, around.sent(ORDER, HEADERS))

    def coroutines(self, handle: HandleLater) -> Send:
        hub = aiopubsub.Hub()

        async def received(key: aiopubsub.Key, body: object) -> None:
            await handle(body)

        subscriber = self._subscriber = aiopubsub.Subscriber(hub, "bench")
        subscriber.add_async_listener(aiopubsub.Key("bench", ADDRESS), received)
        publisher, key = aiopubsub.Publisher(hub, "bench"), aiopubsub.Key(ADDRESS)
        return partial(publisher.publish, key, TEXT)

    async def rest(self) -> None:
        if self._subscriber is not None:
            await self._subscriber.remove_all_listeners()
            self._subscriber = None
