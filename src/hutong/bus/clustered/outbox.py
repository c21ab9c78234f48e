"""The messages for one other node, in the order of their sends: what a context is to a consumer.

Strategy: the same public queue as a context has (`runtime/contexts/contexts.py`), so the fast path of a send puts its
message here without knowing it. While the outbox is held (no connection, or a peer that does not read) messages wait in
the queue. At QUEUED_MAX a send raises LimitExceeded, as it does for a consumer that does not keep up.

Knows no connection. Senders may be on any thread; everything else is on the loop's.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from hutong.foundation.errors import LimitExceeded
from hutong.runtime.contexts.contexts import PASS_MAX, QUEUED_MAX

Queued = tuple[Callable[[Any], object], Any]


class Outbox:
    """Held until it is released for the first time. `wanted()` is called where messages come while it is held."""

    __slots__ = (
        "_is_held", "_is_wanted", "_loop", "_passed", "_thread_id", "_wanted", "is_scheduled", "queue",
    )  # fmt: skip

    def __init__(
        self, loop: asyncio.AbstractEventLoop, wanted: Callable[[], object], passed: Callable[[], object]
    ) -> None:
        """On the loop's thread. `passed()` is called after each pass over the queue."""
        self.queue: deque[Queued] = deque()
        self.is_scheduled = False
        self._loop = loop
        self._thread_id = threading.get_ident()
        self._is_held = True
        self._is_wanted = False  # `wanted` was called since it is held
        self._wanted = wanted
        self._passed = passed

    def run(self, handler: Callable[[Any], object], argument: Any) -> None:
        """Call `handler(argument)` on the loop in its turn; from any thread. Raises LimitExceeded at QUEUED_MAX."""
        if len(self.queue) >= QUEUED_MAX:
            raise LimitExceeded("queued_max", QUEUED_MAX)
        self.queue.append((handler, argument))
        if not self.is_scheduled:
            self.schedule()

    def schedule(self) -> None:
        self.is_scheduled = True
        if threading.get_ident() == self._thread_id:
            self._loop.call_soon(self._pass)
        # A thread may outlive the loop.
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._pass)

    def hold(self) -> None:
        """Send nothing until `release`."""
        self._is_held = True
        self._is_wanted = False

    def release(self) -> None:
        """Send what waits, and from now on whatever comes."""
        self._is_held = False
        self._pass()

    def take_all(self) -> list[Any]:
        """The messages that wait, which are not sent then."""
        taken = [self.queue.popleft()[1] for _ in range(len(self.queue))]
        # Those that come from now on ask for a connection again.
        self._is_wanted = False
        self._settle()
        return taken

    def _pass(self) -> None:
        if self._is_held:
            # It stays scheduled, so senders only append, and the first of them is reported.
            if self.queue and not self._is_wanted:
                self._is_wanted = True
                self._wanted()
            elif not self.queue:
                self._settle()
            return
        queue = self.queue
        popleft = queue.popleft
        for _ in range(min(len(queue), PASS_MAX)):
            handler, argument = popleft()
            handler(argument)
        self._passed()
        self._settle()

    def _settle(self) -> None:
        # In this order: an append before the second line is found by it, one after it schedules a pass itself.
        self.is_scheduled = False
        if self.queue:
            self.schedule()
