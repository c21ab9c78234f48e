"""The blocking work of one journal that is in flight, so that its files are closed only when nobody uses them.

Strategy: a thin layer over the node's offloads that counts. Flushes, for which producers wait, may have a worker of the
journal's own, and reads some of theirs, so that neither waits behind the other, nor behind another journal whose disk
has stalled. Of all other work a journal has one piece on the shared workers at a time, in the order it came: so a
stalled disk can hold one of them and never all. `when_idle` calls back once nothing is in flight; an abandoned
journal's results are dropped, as those of a process that has died.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from hutong.foundation.errors import LimitExceeded
from hutong.runtime.threads.offload import Offload

T = TypeVar("T")


class Jobs:
    """Three offloads, perhaps the same, and a count of the work in flight on them."""

    def __init__(self, offload: Offload, read_offload: Offload, flush_offload: Offload) -> None:
        self._offload = offload
        self._read_offload = read_offload
        self._flush_offload = flush_offload
        self._queued: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()  # behind the one being done
        self._is_working = False
        self._in_flight = 0
        self._is_abandoned = False
        self._may_reads_end = True
        self._when_idle: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return self._in_flight

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        """Submit work that writes; each piece starts after the result of the one before.

        Raises nothing: `then` gets the error if the offload refuses.
        """
        self._in_flight += 1
        self._queued.append((work, then))
        self._begin_next()

    def submit_flush(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        """Submit a flush, which waits for no other work."""
        self._submit(self._flush_offload, work, then)

    def submit_read(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        """Submit a read from the disk."""
        self._submit(self._read_offload, work, then, is_read=True)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once nothing is in flight, perhaps at once."""
        self._when_idle.append(callback)
        self._notify_if_idle()

    def abandon(self, *, may_reads_end: bool = False) -> None:
        """Drop the queue, and ignore the results of work in flight, unless reads may end."""
        self._is_abandoned, self._may_reads_end = True, may_reads_end
        self._in_flight -= len(self._queued)
        self._queued.clear()

    def _begin_next(self) -> None:
        if self._is_working or not self._queued:
            return
        work, then = self._queued.popleft()

        def ended(outcome: object) -> None:
            self._is_working = False
            self._ended(then, outcome)
            self._begin_next()

        self._is_working = True
        try:
            self._offload.submit(work, ended)
        except (LimitExceeded, RuntimeError) as refusal:
            ended(refusal)

    def _submit(
        self,
        offload: Offload,
        work: Callable[[], T],
        then: Callable[[T | BaseException], None],
        *,
        is_read: bool = False,
    ) -> None:
        self._in_flight += 1
        try:
            offload.submit(work, lambda outcome: self._ended(then, outcome, is_read=is_read))
        except BaseException:
            self._in_flight -= 1
            raise

    def _ended(self, then: Callable[[Any], None], outcome: object, *, is_read: bool = False) -> None:
        self._in_flight -= 1
        try:
            if not self._is_abandoned or (is_read and self._may_reads_end):
                then(outcome)
        finally:
            self._notify_if_idle()

    def _notify_if_idle(self) -> None:
        while self._when_idle and not self._in_flight:
            self._when_idle.pop(0)()
