"""Request queue: the bytes received and not begun, over all connections, with a bound on reading.

Strategy: a request is begun in the step that received it, unless its connection has too many under way already. Only
requests that wait for the processor count as queued: a peer that does not read its answers, or is held, must not stop
the reading of others. Bytes always count, as memory does, with those of requests that have not arrived whole.

At a bound only connections in the middle of a request are read, so that each request that began can end. For each
request that leaves the queue, the connection that has waited longest is read once: the one that fills the queue must
not keep the others out until all of its own is done. Below the bound all continue.

Knows nothing of connections or clocks: times are given with what happens.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

UNBOUNDED: Final = 1 << 62


class RequestQueue:
    """Of all acceptors that share it. `is_full` while nobody is to be read.

    Figures: requests, bytes, requests_max_seen, full_total (how often), depleted_ms_total (for its bytes).
    """

    def __init__(self, requests_max: int = UNBOUNDED, bytes_max: int = UNBOUNDED) -> None:
        self.requests_max = requests_max
        self.bytes_max = bytes_max
        self.requests = 0
        self.bytes = 0
        self.is_full = False
        self.full_total = 0
        self.requests_max_seen = 0
        self._depleted_ms_total = 0
        self._depleted_at_ms: int | None = None
        self._now_ms = 0
        self._waiting: dict[Callable[[], None], None] = {}
        self._let_in: set[Callable[[], None]] = set()  # connections that may be read once although it is full

    def change(self, requests: int, size: int, now_ms: int | None = None) -> None:
        """Add to the kept requests and bytes; negative to subtract. Without a time only the end is recorded."""
        # Callers have clocks read at different moments; time must not run backwards here.
        if now_ms is not None and now_ms > self._now_ms:
            self._now_ms = now_ms
        self.requests += requests
        self.bytes += size
        if self.requests > self.requests_max_seen:
            self.requests_max_seen = self.requests
        is_depleted = self.bytes >= self.bytes_max
        if is_depleted is (self._depleted_at_ms is None):
            self._note_depleted(is_depleted)
        is_full = is_depleted or self.requests >= self.requests_max
        if is_full is not self.is_full:
            self.is_full = is_full
            self.full_total += is_full
            if not is_full:
                waiting, self._waiting = self._waiting, {}
                self._let_in.clear()
                for wake in waiting:
                    wake()
        # One reader for each request that left, longest waiting first: fair among connections while it is full.
        elif is_full and requests < 0 and self._waiting and not is_depleted:
            for wake in list(islice(self._waiting, -requests)):
                del self._waiting[wake]
                self._let_in.add(wake)
                wake()

    def may_read(self, wake: Callable[[], None]) -> bool:
        """True when a connection without waiting bytes may be read now. Else it is called to ask again later."""
        if not self.is_full:
            return True
        if wake in self._let_in:
            self._let_in.discard(wake)
            return True
        self._waiting[wake] = None
        return False

    def depleted_ms(self, now_ms: int) -> int:
        """The total time with all allowed bytes in use."""
        running_ms = 0 if self._depleted_at_ms is None else max(0, now_ms - self._depleted_at_ms)
        return self._depleted_ms_total + running_ms

    def _note_depleted(self, is_depleted: bool) -> None:
        if is_depleted:
            self._depleted_at_ms = self._now_ms
        elif self._depleted_at_ms is not None:
            self._depleted_ms_total += self._now_ms - self._depleted_at_ms
            self._depleted_at_ms = None

    def check_invariants(self) -> None:
        assert self.requests >= 0
        assert self.bytes >= 0
        assert self.is_full == (self.requests >= self.requests_max or self.bytes >= self.bytes_max)
        assert self.is_full or not (self._waiting or self._let_in)
        assert not self._let_in & self._waiting.keys()
