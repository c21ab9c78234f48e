"""Streams at the service: an iterator that is advanced as far as its reader has asked, and no further.

Strategy: a reader asks a temporary service for the next items, in batches. A coroutine in the context of the binding
pulls as many as are requested. The reader gets available items at once, and an empty batch after a while without any,
so that a quiet stream is no timeout. An exception of the iterator follows the items before it.

Knows no transport.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextvars import Context as Variables
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from hutong.bus.bus import EventBus
from hutong.bus.waiting.promise import Promise
from hutong.foundation.errors import Expired
from hutong.rpc.descriptions.description import closes, service
from hutong.rpc.errors import OUTCOME_UNKNOWN_CODE, ServiceError
from hutong.rpc.serving.stepping import awaited_in

T = TypeVar("T")
BATCH_MAX: Final = 1_000  # items in one answer
WAIT_MS_MAX: Final = 60_000
NEXT: Final = "next"
CANCEL: Final = "cancel"


class Batch(Struct, Generic[T], frozen=True):
    """Some items, in order; with `is_done` there are no more."""

    items: list[T]
    done: bool = False


@service("hutong.rpc.stream")
class Stream(Protocol):
    """The temporary service of a stream, as its reader calls it."""

    async def next(self, max: int = 1, wait_ms: int = 10_000) -> Batch[Any]:
        """The next items: at least one, unless the stream ends or nothing comes for `wait_ms`; at most `max`."""
        ...

    @closes
    async def cancel(self) -> None:
        """The reader wants no more: the iterator is closed."""
        ...


class InVariables:
    """An async iterator whose steps run in the context variables of the call that returned it."""

    def __init__(self, iterator: AsyncIterator[Any], variables: Variables) -> None:
        self._iterator = iterator
        self._variables = variables

    def __aiter__(self) -> "InVariables":
        return self

    async def __anext__(self) -> Any:
        return await awaited_in(self._variables, self._iterator.__anext__())

    async def aclose(self) -> None:
        """Let it clean up, if it can."""
        close = getattr(self._iterator, "aclose", None)
        if close is not None:
            await awaited_in(self._variables, close())


class StreamSource:
    """Implements `Stream` over an iterator. All of it in the context of the binding."""

    def __init__(self, iterator: InVariables, bus: EventBus) -> None:
        self._iterator = iterator
        self._bus = bus
        self._items: deque[Any] = deque()  # at most as many as the reader asked for last
        self._wanted = 0  # to be pulled: what was asked for and is not there yet
        self._is_done = False
        self._error: BaseException | None = None
        self._reader: Promise[None] | None = None  # the reader's request that waits for items
        self._puller: Promise[None] | None = None  # the pulling coroutine, while nothing is wanted
        self._task: asyncio.Task[Any] | None = None
        self._is_closed = False
        self._is_cut = False  # closed before its reader had all of it
        self.done_handler: Callable[[], object] | None = None  # called when the reader has had all

    async def next(self, max: int = 1, wait_ms: int = 10_000) -> Batch[Any]:
        count = min(max, BATCH_MAX)
        if count < 1 or wait_ms < 1:
            raise ValueError("next asks for one item or more, and waits for a millisecond or more")
        # Set, not added up: only the reader's latest request counts.
        self._wanted = count - len(self._items)
        if self._wanted > 0 and not self._is_done:
            self._pull()
        if not self._items and not self._is_done:
            await self._wait(min(wait_ms, WAIT_MS_MAX))
        # Else the reader would take it for the end: the service was unbound, or its node stops.
        if self._is_cut:
            raise ServiceError("the stream was closed before its end", code=OUTCOME_UNKNOWN_CODE)
        taken = [self._items.popleft() for _ in range(min(count, len(self._items)))]
        # Items that came before the exception are delivered first.
        if not taken and self._error is not None:
            self._finish()
            raise self._error
        is_done = self._is_done and not self._items and self._error is None
        if is_done:
            self._finish()
        return Batch(taken, is_done)

    def _finish(self) -> None:
        if self.done_handler is not None:
            self.done_handler()

    async def cancel(self) -> None:
        """The temporary service is closed behind this, and with it the stream."""

    async def aclose(self) -> None:
        """End the stream: the iterator is closed at its present item."""
        if self._is_closed:
            return
        self._is_cut = bool(self._items) or not self._is_done
        self._is_closed = self._is_done = True
        self._items.clear()
        _resume(self, "_reader")
        if self._task is None:
            await self._iterator.aclose()
        # A resting puller ends by itself; one that waits inside of the iterator has to be cancelled.
        elif self._puller is not None:
            _resume(self, "_puller")
        else:
            self._task.cancel()

    async def pull(self) -> None:
        """The pulling coroutine: runs as long as the stream does."""
        self._task = asyncio.current_task()
        try:
            while not self._is_closed:
                if self._wanted > 0:
                    await self._pull_one()
                else:
                    await self._rest()
        except StopAsyncIteration:
            pass
        except asyncio.CancelledError as error:
            self._error = None if self._is_closed else error
            if not self._is_closed:
                raise
        except Exception as error:  # noqa: BLE001  # a supervisor: iterators are other people's code
            self._error = error
        finally:
            self._is_done = True
            _resume(self, "_reader")
            await self._iterator.aclose()

    async def _pull_one(self) -> None:
        item = await self._iterator.__anext__()
        self._items.append(item)
        self._wanted -= 1
        _resume(self, "_reader")

    def _pull(self) -> None:
        if self._puller is not None:
            _resume(self, "_puller")

    async def _rest(self) -> None:
        """Wait until items are asked for."""
        from hutong.foundation.waiting.table import NEVER

        self._puller = self._parked(NEVER)
        try:
            await self._puller
        finally:
            self._puller = None

    async def _wait(self, wait_ms: int) -> None:
        self._reader = self._parked(wait_ms)
        try:
            await self._reader
        except Expired:
            pass
        finally:
            self._reader = None

    def _parked(self, timeout_ms: int) -> Promise[None]:
        state = self._bus.callers_state()
        waiting: Promise[None] = Promise(state.executor)
        state.waits.queue(timeout_ms).park(waiting)
        return waiting


def _resume(source: StreamSource, name: str) -> None:
    waiting: Promise[None] | None = getattr(source, name)
    setattr(source, name, None)
    if waiting is not None:
        waiting.resume(None)
