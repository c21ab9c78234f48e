"""Pending values, which a function returns instead of a value that comes later, and continuations, which take values.

Strategy: the function returns a `Pending` empty, and something else (a flush, a timer, a client) completes it. It may
be completed before `then` is called or after, so a function need not know which of its steps end at once.

Knows nothing of what is awaited, nor of threads: both sides run on one loop.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from hutong.foundation.errors import HutongError

if TYPE_CHECKING:
    import asyncio

V = TypeVar("V")
Continuation: TypeAlias = Callable[[V | HutongError], None]
"""Called once: with the value, or with the error. The value of `Continuation[None]` is None: it is done."""


def settle_future(future: "asyncio.Future[V]", outcome: V | HutongError) -> None:
    """End an asyncio future with the value or the error: as a `partial`, the continuation of a coroutine."""
    if future.done():
        return  # its task was cancelled, and nobody waits any more
    if isinstance(outcome, HutongError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


class Pending(Generic[V]):
    """A value that is completed exactly once, on the loop thread, and consumed by exactly one callback.

    Subclasses: the reactor's `PendingResponse` keeps its place among the answers of a connection. The broker's
    `PendingInParts` is complete when its last part is.
    """

    __slots__ = ("_then", "_value", "is_complete", "is_large")

    def __init__(self) -> None:
        self.is_complete = False
        self.is_large = False  # of so many elements that a worker should encode it
        self._value: V | None = None
        self._then: Callable[[V], None] | None = None

    def complete(self, value: V) -> None:
        """Hand the value over. A second completion is our own fault and raises RuntimeError."""
        if self.is_complete:
            raise RuntimeError("a pending value was completed twice")
        self.is_complete = True
        # The usual order: the function has returned and its caller has called `then` before the value comes.
        if self._then is not None:
            then, self._then = self._then, None
            then(value)
        else:
            self._value = value

    def then(self, callback: Callable[[V], None]) -> None:
        """Call back with the value: now if it is already here, else when it is completed."""
        if not self.is_complete:
            self._then = callback
            return
        value, self._value = self._value, None
        callback(value)  # type: ignore[arg-type]  # None here means that None is a V
