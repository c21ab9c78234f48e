"""What becomes visible and acknowledged as the journal's positions pass a chunk.

Strategy: two positions rise: flushed and committed, in either order. Acknowledgements are parked at the end of their
chunk, one ordered wait table for each level of service, and each advance of either position releases what it lets go:
so the last of the two releases what waits for both. A log's high watermark follows the lesser of the two, chunk by
chunk. All are queues in stream order, so an advance costs only what it releases.

While replication has failed, who waits for a majority is refused and the rest goes on; the flushed position alone says
then how long bytes are kept for the replicator.

Knows nothing of disks or replicas: whoever advances a position has done the work.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded, Refused
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.ordered import OrderedWaitTable
from hutong.foundation.waiting.table import NEVER
from hutong.journal.append.qos import Qos, released_through
from hutong.journal.figures import JournalFigures

if TYPE_CHECKING:
    from hutong.journal.append.writer import Appended, Then
    from hutong.journal.log import PartitionLog

NOT_ENOUGH_REPLICAS_AFTER_APPEND: Final = 20


class Progress:
    """Positions of one journal and what waits for them.

    released_position = min(flushed_position, committed_position), or flushed_position while replication has failed;
    it never decreases. Before it, bytes need not be kept in memory.
    """

    def __init__(
        self,
        position: int,
        acknowledgements_max: int,
        clock: Clock,
        timers: TimerWheel,
        figures: JournalFigures,
        *,
        is_replicated: bool = False,
    ) -> None:
        """`is_replicated` says that commits take their time, so that it is worth measuring."""
        self.flushed_position = position
        self.committed_position = position
        self.released_position = position
        self.awaited_position = position  # nobody waits for anything after it to be flushed
        self.on_late_commit: Callable[[], None] = lambda: None  # a commit came after the flush of the same bytes
        self._clock = clock
        self._figures = figures
        self._is_replicated = is_replicated
        self._refusal: HutongError | None = None
        self._no_majority: HutongError | None = None
        self._tables: dict[Qos, OrderedWaitTable[Appended]] = {
            qos: OrderedWaitTable(f"acknowledgements_{qos.name.lower()}", timers, acknowledgements_max)
            for qos in (Qos.PERSISTENCE, Qos.REPLICATION, Qos.ALL)
        }
        self._replication_table = self._tables[Qos.REPLICATION]
        # Chunks by their end position: when they were begun and each log's end offset there; when they were sealed.
        self._invisible: deque[tuple[int, int, list[tuple[PartitionLog, int]]]] = deque()
        self._unflushed: deque[tuple[int, int]] = deque()
        self._uncommitted: deque[tuple[int, int]] = deque()

    @property
    def replication_failure(self) -> HutongError | None:
        """Why no majority is to be had, None while there is one."""
        return self._no_majority

    @property
    def tables(self) -> Mapping[Qos, OrderedWaitTable["Appended"]]:
        """The parked acknowledgements, for whoever shows their figures."""
        return self._tables

    @property
    def acknowledgements_parked(self) -> int:
        return sum(len(table) for table in self._tables.values())

    def sealed(
        self, end_position: int, log_ends: "list[tuple[PartitionLog, int]]", begun_us: int, sealed_us: int
    ) -> None:
        """A chunk that ends there took the logs to these end offsets. Readers wait for it, but of receive-QoS logs."""
        self._invisible.append((end_position, begun_us, log_ends))
        self._unflushed.append((end_position, sealed_us))
        if self._is_replicated:
            self._uncommitted.append((end_position, sealed_us))
        if not log_ends or not all(log.receive_qos for log, _ in log_ends):
            self.awaited_position = end_position

    def is_safe(self, qos: Qos, position: int) -> bool:
        """Whether an acknowledgement at `qos`, above RECEIVE, need not be parked there."""
        return released_through(qos, self.flushed_position, self.committed_position) >= position

    def park(self, qos: Qos, position: int, then: "Then", appended: "Appended") -> None:
        """Call `then` once `position` is safe at `qos`, which is above RECEIVE, however long that takes."""
        self.park_all(qos, position, [(then, appended)], NEVER, 0)

    def park_all(
        self, qos: Qos, position: int, waits: "list[tuple[Then, Appended]]", timeout_ms: int, now_ms: int
    ) -> None:
        """Call each `then` once `position` is safe at `qos`, with Expired after `timeout_ms`, or with a refusal."""
        refusal = self._refusal
        if refusal is None and qos > Qos.PERSISTENCE:
            refusal = self._no_majority
        if refusal is None:
            if qos is not Qos.REPLICATION and position > self.awaited_position:
                self.awaited_position = position
            try:
                self._tables[qos].park(position, waits, timeout_ms=timeout_ms, now_ms=now_ms)
                return
            except LimitExceeded as error:
                refusal = error
        for then, _ in waits:
            then(refusal)

    def flushed(self, position: int, begun_us: int, ended_us: int) -> None:
        """Everything before `position` is on the disk, by a flush that a worker did between these times."""
        self.flushed_position = position
        unflushed, queue_us = self._unflushed, self._figures.queue_us
        chunks = 0
        while unflushed and unflushed[0][0] <= position:
            queue_us.record(begun_us - unflushed.popleft()[1])
            chunks += 1
        self._figures.chunks_per_flush.record(chunks)
        self._release(ended_us)

    def committed(self, position: int) -> None:
        """A majority holds everything before `position`."""
        was_behind = self.committed_position < self.flushed_position
        self._no_majority = None
        self.committed_position = max(self.committed_position, position)
        if self._uncommitted:
            self._note_commits(position)
        if was_behind:
            self._release(self._clock.monotonic_us())
            self.on_late_commit()
        elif not self._replication_table.is_empty:
            self._replication_table.resume_through(self.committed_position)

    def replication_failed(self, error: HutongError) -> None:
        """Refuse who waits for a majority, now and until something is committed again. Flushes go on."""
        refusal = Refused(NOT_ENOUGH_REPLICAS_AFTER_APPEND, f"Stored here, but on no majority: {error}")
        self._no_majority = refusal
        for qos in (Qos.REPLICATION, Qos.ALL):
            self._tables[qos].fail_all(refusal)
        self.released_position = max(self.released_position, self.flushed_position)
        self.on_late_commit()

    def refuse(self, error: HutongError) -> int:
        """Fail every parked acknowledgement, and each new one, until `accept`. Returns how many were parked."""
        self._refusal = error
        return sum(table.fail_all(error) for table in self._tables.values())

    def accept(self) -> None:
        """Positions may advance again."""
        self._refusal = None

    def stop(self) -> None:
        """No deadline passes any more."""
        for table in self._tables.values():
            table.stop_timers()

    def check_invariants(self) -> None:
        assert self.released_position <= self.flushed_position
        for table in self._tables.values():
            table.check_invariants()

    def _release(self, now_us: int) -> None:
        """Let go what the positions allow, watermarks before acknowledgements."""
        flushed_position, committed_position = self.flushed_position, self.committed_position
        visible_position = min(flushed_position, committed_position)
        kept_from = visible_position if self._no_majority is None else flushed_position
        self.released_position = max(self.released_position, kept_from)
        invisible, safe_us = self._invisible, self._figures.safe_us
        while invisible and invisible[0][0] <= visible_position:
            _, begun_us, log_ends = invisible.popleft()
            safe_us.record(now_us - begun_us)
            for log, end_offset in log_ends:
                if end_offset > log.high_watermark:  # of receive-QoS logs it is past already
                    log.advance_high_watermark(end_offset)
        for qos, table in self._tables.items():
            if not table.is_empty:
                table.resume_through(released_through(qos, flushed_position, committed_position))

    def _note_commits(self, position: int) -> None:
        uncommitted, replicate = self._uncommitted, self._figures.replicate_us
        now_us = self._clock.monotonic_us()
        while uncommitted and uncommitted[0][0] <= position:
            replicate.record(now_us - uncommitted.popleft()[1])
