"""The frames for one other node, in the order of their sends: what a context is to a consumer.

Strategy: to a send it looks like a context with its queue (`runtime/contexts/contexts.py`), so the fast path of a send
comes here without knowing it. An `append` makes the frame at once: so what waits is counted by its bytes, and a body
that is waiting costs what it has on the wire. Frames of one loop iteration leave with one write at its end; of many,
the first leave earlier, so that both nodes work at the same time. Where messages of the node are handled one by one, a
frame leaves at once: a write of its own costs less than another iteration of the loop.

While the outbox is held (no connection, or a peer that does not read) frames wait. Above a number or `queued_bytes_max`
a send raises LimitExceeded, as it does for a consumer that does not keep up.

Knows no connection. Senders may be on any thread; everything else is on the loop's.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from hutong.bus.clustered.limits import ClusteredLimits
from hutong.bus.envelope.reply import Reply
from hutong.foundation.errors import LimitExceeded
from hutong.runtime.contexts.contexts import PASS_MAX, QUEUED_MAX

Outgoing: TypeAlias = tuple[bytes, Reply | None, object]
"""A frame that waits, the reply that awaits its answer, and the credit that returns with its last reference.

A plain tuple: it is made for each message, in a quarter of the time of one with names.
"""
TOGETHER_MIN: Final = 16
"""Frames that wait and are sent before others join them, so that the node works while more are made here."""


class Outbox:
    """Held until it is released for the first time. `wanted()` is called where frames come while it is held."""

    __slots__ = (
        "_bytes", "_is_corked", "_is_wanted", "_lock", "_loop", "_pass_bytes_max", "_queued_bytes_max", "_thread_id",
        "_transmit", "_transmitted_from", "_waiting", "_wanted", "is_held", "is_scheduled", "queue",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: ClusteredLimits,
        wanted: Callable[[], object],
        transmit: Callable[[list[Outgoing], int], object],
    ) -> None:
        """On the loop's thread. `transmit(frames, bytes)` gives frames to the connection."""
        self.queue = self  # of what a context has; a send asks it for its length and appends
        self.is_scheduled = False
        self._waiting: deque[Outgoing] = deque()
        self._bytes = 0  # of them
        self._lock = threading.Lock()  # of `_bytes`, and of nothing else
        self._loop = loop
        self._queued_bytes_max = limits.queued_bytes_max
        self._pass_bytes_max = limits.unsent_bytes_max
        self._thread_id = threading.get_ident()
        self.is_held = True
        self._is_wanted = False  # `wanted` was called since it is held
        self._is_corked = False
        self._transmitted_from = TOGETHER_MIN  # so many frames that wait are sent before the pass
        self._wanted = wanted
        self._transmit = transmit

    # -- as a context and its queue

    def __len__(self) -> int:
        """The frames that wait. Raises LimitExceeded where they have `queued_bytes_max`: a send asks before each."""
        if self._bytes >= self._queued_bytes_max:
            raise LimitExceeded("queued_bytes_max", self._queued_bytes_max)
        return len(self._waiting)

    def append(self, queued: tuple[Callable[[Any], object], Any]) -> None:
        """Call the handler, which puts the frame of its message here."""
        handler, argument = queued
        handler(argument)

    def run(self, handler: Callable[[Any], object], argument: Any) -> None:
        """Call `handler(argument)`, which puts a frame here; from any thread. Raises LimitExceeded."""
        if len(self) >= QUEUED_MAX:
            raise LimitExceeded("queued_max", QUEUED_MAX)
        handler(argument)
        if not self.is_scheduled:
            self.schedule()

    def run_queued(self) -> None:
        if not self.is_scheduled:
            self.schedule()

    def schedule(self) -> None:
        # It was sent at once.
        if not self._waiting:
            return
        self.is_scheduled = True
        if threading.get_ident() == self._thread_id:
            self._loop.call_soon(self._pass)
        # A thread may outlive the loop.
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._pass)

    # -- for its link

    def put(self, frame: Outgoing) -> None:
        """Let a frame wait for its turn. From any thread, within `append` or `run`."""
        with self._lock:
            self._bytes += len(frame[0])
        waiting = self._waiting
        waiting.append(frame)
        # The node can begin with these while others are made.
        if len(waiting) >= self._transmitted_from and not self.is_held and threading.get_ident() == self._thread_id:
            self._transmitted_from = min(max(2 * self._transmitted_from, TOGETHER_MIN), PASS_MAX)
            self._transmit(*self._take(PASS_MAX, self._pass_bytes_max))

    def cork(self, arrived: int) -> None:
        """Let frames wait until `uncork`, in the same step of the loop. `arrived` counts the node's messages."""
        # One after the other, and nobody else sends: then each frame may leave at once.
        self._transmitted_from = 1 if arrived == 1 else TOGETHER_MIN
        self._is_corked = not self.is_scheduled
        self.is_scheduled = True

    def uncork(self) -> None:
        if self._is_corked:
            self._is_corked = False
            self._pass()

    def hold(self) -> None:
        """Send nothing until `release`."""
        self.is_held = True
        self._is_wanted = False

    def release(self) -> None:
        """Send the messages that wait, and later ones at once."""
        self.is_held = False
        self._pass()

    def take_all(self) -> list[Outgoing]:
        """The frames that wait, which are not sent then."""
        taken, _ = self._take(len(self._waiting), self._bytes + 1)
        # Those that come from now on ask for a connection again.
        self._is_wanted = False
        self._settle()
        return taken

    @property
    def sizes(self) -> tuple[int, int]:
        """The frames that wait, and their bytes."""
        return len(self._waiting), self._bytes

    def check_invariants(self) -> None:
        assert self._bytes == sum([len(frame[0]) for frame in self._waiting])
        # The last one that found room may be of any size.
        others = self._bytes - (len(self._waiting[-1][0]) if self._waiting else 0)
        assert others < self._queued_bytes_max
        # Otherwise what waits would wait for ever.
        assert self.is_scheduled or not self._waiting

    def _pass(self) -> None:
        if self.is_held:
            # It stays scheduled, so senders only append, and the first of them is reported.
            if self._waiting and not self._is_wanted:
                self._is_wanted = True
                self._wanted()
            elif not self._waiting:
                self._settle()
            return
        # Bounded by bytes as well: the connection has no bound of its own, and says that it is full after a pass.
        taken, size = self._take(PASS_MAX, self._pass_bytes_max)
        if taken:
            self._transmitted_from = TOGETHER_MIN
            self._transmit(taken, size)
        self._settle()

    def _take(self, count_max: int, bytes_max: int) -> tuple[list[Outgoing], int]:
        """Take frames up to `count_max` or `bytes_max`, and at least one where one waits; and their bytes."""
        taken: list[Outgoing] = []
        waiting, size = self._waiting, 0
        while waiting and len(taken) < count_max and size < bytes_max:
            frame = waiting.popleft()
            taken.append(frame)
            size += len(frame[0])
        with self._lock:
            self._bytes -= size
        return taken, size

    def _settle(self) -> None:
        # In this order: an append before the second line is found by it, one after it schedules a pass itself.
        self.is_scheduled = False
        if self._waiting:
            self.schedule()
