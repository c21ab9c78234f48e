"""Desks: what the bus keeps for one context: the replies it awaits and the consumers that run in it.

Strategy: all of a context ends together, so it lies together: a table of its own for what it waits for, and one close
hook however many consumers come and go.

Knows no addresses.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from hutong.bus.errors import BusClosed
from hutong.bus.lane import Lane
from hutong.bus.options import TIMEOUT_MS_DEFAULT
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.numbered import NumberedWaitTable, WaitQueue
from hutong.runtime.contexts import Context

if TYPE_CHECKING:
    from hutong.bus.bus import EventBus
    from hutong.bus.consumer import Consumer
    from hutong.bus.durable.driver import DurableConsumer

REPLIES_MAX: Final = 1_000_000
"""Replies (and other promises of the bus) that one context may await at a time."""


class Desk:
    """One context's place at the bus. `line` is where replies with the default timeout are awaited."""

    __slots__ = ("bus", "consumers", "context", "lane", "line", "waits")

    def __init__(self, bus: "EventBus", lane: Lane, table: NumberedWaitTable[Any]) -> None:
        self.bus = bus
        self.lane = lane
        self.waits = table
        self.line = table.queue(TIMEOUT_MS_DEFAULT)
        self.consumers: dict[Consumer | DurableConsumer, None] = {}
        self.context: Context | None = None  # whose close ends this desk; of a context made for one consumer, None

    def line_for(self, timeout_ms: int) -> WaitQueue[Any]:
        """Where replies with this timeout are awaited."""
        return self.line if timeout_ms == TIMEOUT_MS_DEFAULT else self.waits.queue(timeout_ms)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is lost when the desk of a context that was made for one consumer is forgotten."""
        return self.context is None and not self.consumers and not len(self.waits)

    def end_with(self, context: Context) -> None:
        """The context is somebody's, who may close it."""
        if self.context is None:
            self.context = context
            with suppress(RuntimeError):  # it is being closed: what it still asks for, it will not wait for
                context.add_close_hook(self._closed)

    def _closed(self) -> None:
        self.end(BusClosed("the context of the requester has been closed"))
        if self.context is not None:
            self.bus.remove_desk(self.context)

    def end(self, error: HutongError) -> None:
        """Unregister every consumer and fail all that is awaited, now and from now on. A second call does nothing."""
        for consumer in list(self.consumers):
            consumer.unregister()
        self.waits.close(error)
