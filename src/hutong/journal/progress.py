"""What becomes visible and acknowledged as the journal's positions pass a chunk.

Strategy: two positions rise: flushed and committed. Acknowledgements are parked at the end of their chunk, one ordered
lot for each level of service; a log's high watermark follows the lesser of the two positions, chunk by chunk. Both are
queues in stream order, so an advance costs only what it releases.

Knows nothing of disks or replicas: whoever advances a position has done the work.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from hutong.foundation.errors import HutongError
from hutong.foundation.parking import OrderedLot
from hutong.journal.qos import Qos, released_through

if TYPE_CHECKING:
    from hutong.journal.log import PartitionLog
    from hutong.journal.writer import Appended


class Progress:
    """Positions of one journal and what waits for them."""

    def __init__(self, position: int, acknowledgements_max: int) -> None:
        self.flushed_position = position
        self.committed_position = position
        self.awaited_position = position  # nobody waits for anything after it to be flushed
        self._refusal: HutongError | None = None
        self._lots: dict[Qos, OrderedLot[Appended]] = {
            qos: OrderedLot(f"acknowledgements_{qos.name.lower()}", acknowledgements_max)
            for qos in (Qos.PERSISTENCE, Qos.REPLICATION, Qos.ALL)
        }
        self._invisible: deque[tuple[int, list[tuple[PartitionLog, int]]]] = deque()  # chunk end, each log's end offset

    @property
    def acknowledgements_parked(self) -> int:
        return sum(len(lot) for lot in self._lots.values())

    def sealed(self, end_position: int, log_ends: "list[tuple[PartitionLog, int]]") -> None:
        """A chunk that ends there took the logs to these end offsets. Readers wait for it, but of receive-QoS logs."""
        self._invisible.append((end_position, log_ends))
        if not log_ends or not all(log.receive_qos for log, _ in log_ends):
            self.awaited_position = end_position

    def park(
        self, qos: Qos, position: int, then: "Callable[[Appended | HutongError], None]", appended: "Appended"
    ) -> None:
        """Call `then` once `position` is safe at `qos`, which is above RECEIVE. Raises LimitExceeded."""
        if self._refusal is not None:
            then(self._refusal)
        else:
            self.awaited_position = max(self.awaited_position, position)
            self._lots[qos].park(position, then, appended)

    def advance(self, flushed_position: int, committed_position: int) -> None:
        """Both positions are at least these now: release what they let go, watermarks before acknowledgements."""
        self.flushed_position = max(self.flushed_position, flushed_position)
        self.committed_position = max(self.committed_position, committed_position)
        visible_position = min(self.flushed_position, self.committed_position)
        invisible = self._invisible
        while invisible and invisible[0][0] <= visible_position:
            _, log_ends = invisible.popleft()
            for log, end_offset in log_ends:
                if end_offset > log.high_watermark:  # of receive-QoS logs it is past already
                    log.advance_high_watermark(end_offset)
        for qos, lot in self._lots.items():
            if lot:
                lot.resume_through(released_through(qos, self.flushed_position, self.committed_position))

    def refuse(self, error: HutongError) -> int:
        """Fail every parked acknowledgement, and each new one, until `accept`. Returns how many were parked."""
        self._refusal = error
        return sum(lot.fail_all(error) for lot in self._lots.values())

    def accept(self) -> None:
        """Positions may advance again."""
        self._refusal = None
