"""Producer ids: every idempotent producer gets one that nobody ever had (KIP-98).

Strategy: ids are reserved in blocks by a record; only ids of a durable reservation are given out, so a crash can skip
ids but never give one twice. The next block is taken while the current one is still half full: nobody waits. Among
several nodes one, the controller, writes the records, and the others ask it for their blocks (`reserve`).

Knows nothing of requests or of what producers do with their ids.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import HutongError, LimitExceeded
from hutong.foundation.waiting.pending import Continuation

if TYPE_CHECKING:
    from hutong.broker.topics.catalogue import StateLog
    from hutong.foundation.waiting.table import WaitTable

PRODUCER_ID_BLOCK: Final = 1_000
_KEY: Final = b"producer-ids"

IdBlock = tuple[int, int]
"""The first id of a block, and the one behind its last."""
ReserveBlock = Callable[[Continuation[IdBlock]], None]


class ProducerIds:
    """Gives out producer ids, each once. `reserve` is where this node has its blocks from: by default its own log."""

    def __init__(self, waiting: WaitTable[None]) -> None:
        self.reserve: ReserveBlock = self.allocate_block
        self._waiting = waiting
        self._state: StateLog | None = None
        self._blocks: deque[IdBlock] = deque()  # of this node, with what is left of the first
        self._is_reserving = False
        # Of all nodes:
        self._durable_end = 0  # ids below are in a record; never decreases
        self._reserved_end = 0  # ids below are in a record on its way to disk; never below _durable_end

    def replay(self, key: bytes, value: bytes | None) -> None:
        if key == _KEY and value is not None:
            self._durable_end = max(self._durable_end, int(value))
            self._reserved_end = max(self._reserved_end, self._durable_end)

    def start(self, state: StateLog) -> None:
        """From here on reservations are recorded in `state`. Called once."""
        self._state = state

    def take(self, then: Continuation[int]) -> None:
        """Give out one id: at once where a reserved one is left, else once the next block is there.

        `then` gets LimitExceeded where too many wait for that.
        """
        if self._blocks:
            producer_id = self._next_id()
            self._reserve_if_due()
            then(producer_id)
            return

        def reserved(outcome: HutongError | None) -> None:
            if outcome is not None:
                then(outcome)
            else:
                self.take(then)

        try:
            # Before the block is asked for: the answer may come within the call.
            self._waiting.park(None, reserved)
        except LimitExceeded as full:
            then(full)
        else:
            self._reserve_if_due()

    def allocate_block(self, then: Continuation[IdBlock]) -> None:
        """Reserve a block for this node or another one, by a record; only while this node writes the metadata."""
        assert self._state is not None, "an id is taken before the state was replayed"
        first, end = self._reserved_end, self._reserved_end + PRODUCER_ID_BLOCK
        self._reserved_end = end

        def recorded(error: HutongError | None) -> None:
            if error is None:
                self._durable_end = max(self._durable_end, end)
                then((first, end))
                return
            # Not on record: the next to ask reserves it anew, unless somebody has asked for more already.
            if self._reserved_end == end:
                self._reserved_end = max(first, self._durable_end)
            then(error)

        self._state.append(_KEY, str(end).encode(), recorded)

    def _reserve_if_due(self) -> None:
        left = sum(end - first for first, end in self._blocks)
        if left < PRODUCER_ID_BLOCK // 2 and not self._is_reserving:
            self._is_reserving = True
            self.reserve(self._reserved)

    def _reserved(self, outcome: IdBlock | HutongError) -> None:
        self._is_reserving = False
        if isinstance(outcome, HutongError):
            self._waiting.fail_all(None, outcome)
        else:
            self._blocks.append(outcome)
            self._waiting.resume_all(None, None)

    def _next_id(self) -> int:
        producer_id, end = self._blocks.popleft()
        if producer_id + 1 < end:
            self._blocks.appendleft((producer_id + 1, end))
        return producer_id
