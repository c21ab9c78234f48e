"""Channel events: reported to listeners one by one, behind a bounded queue, so that none holds up a connection.

Strategy: an event is queued and delivered in a later loop iteration, a bounded number in each. When `events_max` wait,
further ones are dropped and counted, with one warning each time this begins.

Knows no frames.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hutong.remoting.channels.channel import Channel

EVENTS_PER_PASS: Final = 64
_log = logging.getLogger("hutong.remoting")


class ChannelEventKind(Enum):
    CONNECT = "connect"  # a connection is open
    ACTIVE = "active"  # it can be used: right after CONNECT, as in RocketMQ
    IDLE = "idle"  # nothing passed for `idle_ms_max`: it is closed
    EXCEPTION = "exception"  # it is closed for a fault, of the peer's bytes or ours
    CLOSE = "close"  # it is gone, for whatever reason


@dataclass(frozen=True, slots=True)
class ChannelEvent:
    kind: ChannelEventKind
    address: str
    channel: "Channel"


Listener = Callable[[ChannelEvent], object]


class ChannelEvents:
    """Costs nothing while nobody listens. The loop's exception handler gets the error of a listener."""

    def __init__(self, loop: asyncio.AbstractEventLoop, events_max: int) -> None:
        self.dropped_total = 0
        self.listeners: list[Listener] = []
        self._loop = loop
        self._events_max = events_max
        self._queue: deque[ChannelEvent] = deque()
        self._is_dropping = False

    def __len__(self) -> int:
        return len(self._queue)

    def report(self, kind: ChannelEventKind, channel: "Channel") -> None:
        if not self.listeners:
            return
        if len(self._queue) >= self._events_max:
            self.dropped_total += 1
            if not self._is_dropping:
                self._is_dropping = True
                _log.warning("%d channel events wait for their listeners; further ones are dropped", self._events_max)
            return
        self._queue.append(ChannelEvent(kind, channel.address, channel))
        if len(self._queue) == 1:
            self._loop.call_soon(self._run_pass)

    def _run_pass(self) -> None:
        try:
            for _ in range(min(EVENTS_PER_PASS, len(self._queue))):
                event = self._queue[0]
                for listener in self.listeners:
                    self._report_to(listener, event)
                self._queue.popleft()
        finally:
            self._is_dropping = self._is_dropping and len(self._queue) * 2 > self._events_max
            if self._queue:
                self._loop.call_soon(self._run_pass)

    def _report_to(self, listener: Listener, event: ChannelEvent) -> None:
        try:
            listener(event)
        except Exception as error:  # noqa: BLE001  # the supervisor of listeners: the others get the event
            self._loop.call_exception_handler({"message": f"a listener failed at {event}", "exception": error})
