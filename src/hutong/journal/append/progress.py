"""The positions of a journal, and the watermarks and waits that depend on them.

Strategy: three positions rise in any order: flushed here, held by the other in-sync replicas, stored on their disks.
Continuations are parked at the end of their chunk, one ordered wait table for each level of service. Each advance
resumes those it satisfies, so the last of several positions resumes those that wait for all. A log's high watermark
follows the *committed* position, chunk by chunk: every in-sync replica has flushed what comes before it. All are queues
in stream order, so an advance costs only as much as it resumes.

While replication has failed, continuations that wait for replicas are refused and all others proceed; the flushed
position alone decides then how long bytes are kept for the replicator.

Knows nothing of disks or replicas: it is called after the work was done.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from hutong.foundation.errors import HutongError, LimitExceeded, Refused
from hutong.foundation.waiting.ordered import OrderedWaitTable
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.append.log_tail import LogTail
from hutong.journal.append.qos import Qos, released_through
from hutong.journal.resources import JournalPart, JournalResources
from hutong.wire.kafka.error_codes import ErrorCode

_PERSISTENCE, _REPLICATION = Qos.PERSISTENCE, Qos.REPLICATION  # looked up once, as in `log_appends`


class Progress(JournalPart):
    """Positions of one journal and the continuations that wait for them.

    released_position = min(flushed_position, held_position), or flushed_position while replication has failed; it never
    decreases. Before it, bytes need not be kept in memory.
    """

    def __init__(self, position: int, resources: JournalResources, replicated_position: int | None = None) -> None:
        """The stream ends at `position`, and is flushed. With other replicas, they have it up to the second."""
        super().__init__(resources)
        self.flushed_position = position
        self.held_position = position if replicated_position is None else replicated_position
        self.stored_position = self.held_position
        self.released_position = position
        self.awaited_position = position  # nobody waits for anything after it to be flushed
        self._is_replicated = replicated_position is not None
        self._refusal: HutongError | None = None
        self._too_few_replicas: HutongError | None = None
        self._tables: dict[Qos, OrderedWaitTable[None]] = {
            qos: OrderedWaitTable(
                f"acknowledgements_{qos.name.lower()}", resources.timers, resources.settings.acknowledgements_max
            )
            for qos in (_PERSISTENCE, _REPLICATION, Qos.ALL)
        }
        self._replication_table = self._tables[_REPLICATION]
        # Chunks by their end position: when they were begun and each log's end offset there; when they were sealed.
        self._invisible: deque[tuple[int, int, list[tuple[LogTail, int]]]] = deque()
        self._unflushed: deque[tuple[int, int]] = deque()
        self._unheld: deque[tuple[int, int]] = deque()

    @property
    def tables(self) -> Mapping[Qos, OrderedWaitTable[None]]:
        """The parked continuations, for figures."""
        return self._tables

    def chunk_sealed(
        self, end_position: int, log_ends: list[tuple[LogTail, int]], begun_us: int, sealed_us: int
    ) -> None:
        """Register a sealed chunk: `log_ends` holds each log's end offset after it.

        They become visible once the chunk is safe; those of receive-QoS logs are visible already.
        """
        self._invisible.append((end_position, begun_us, log_ends))
        self._unflushed.append((end_position, sealed_us))
        # Alone, a commit follows the sealing at once: there is nothing to measure.
        if self._is_replicated:
            self._unheld.append((end_position, sealed_us))
        # Readers wait for the flush of every other log, even where no producer does (acks=0). Statements have no log
        # here; retention waits for their flush.
        if not log_ends or not all(log.receive_qos for log, _ in log_ends):
            self.awaited_position = end_position

    @property
    def is_replicated(self) -> bool:
        """True if there are other replicas."""
        return self._is_replicated

    def chunks_recovered(self, rows: Iterable[tuple[int, list[tuple[LogTail, int]]]]) -> None:
        """Register chunks that were found on disk, and that other replicas may not have."""
        now_us = self._clock.monotonic_us()
        self._invisible.extend((end_position, now_us, log_ends) for end_position, log_ends in rows)

    def is_safe(self, qos: Qos, position: int) -> bool:
        """True if everything before `position` is safe at `qos`, above RECEIVE, so that there is nothing to park."""
        return released_through(qos, self.flushed_position, self.held_position, self.stored_position) >= position

    def park(
        self, qos: Qos, position: int, waits: list[tuple[Continuation[None], None]], timeout_ms: int, now_ms: int
    ) -> None:
        """Call each once `position` is safe at `qos`, above RECEIVE; with Expired after `timeout_ms`, or refused."""
        refusal = self._refusal
        if refusal is None and qos > _PERSISTENCE:
            refusal = self._too_few_replicas
        if refusal is None:
            # A wait for replicas alone needs no flush: the flusher may take its time.
            if qos is not _REPLICATION and position > self.awaited_position:
                self.awaited_position = position
            try:
                self._tables[qos].park(position, waits, timeout_ms=timeout_ms, now_ms=now_ms)
                return
            except LimitExceeded as error:
                refusal = error
        for then, _ in waits:
            then(refusal)

    def flushed(self, position: int, begun_us: int, ended_us: int) -> None:
        """Note that everything before `position` is on the disk, by a flush that a worker did between these times."""
        self.flushed_position = position
        unflushed, queue_us = self._unflushed, self._figures.queue_us
        chunks = 0
        while unflushed and unflushed[0][0] <= position:
            queue_us.record(begun_us - unflushed.popleft()[1])
            chunks += 1
        self._figures.chunks_per_flush.record(chunks)
        self._release(ended_us)

    @property
    def committed_position(self) -> int:
        """Every in-sync replica has flushed everything before it, this one included."""
        return min(self.flushed_position, self.stored_position)

    def replicated(self, held_position: int, stored_position: int) -> None:
        """Note what the other in-sync replicas hold in memory, and what they have on disk."""
        # If the flush of these bytes came first, everything that waits for more than one position is released here.
        flushed_position = self.flushed_position
        was_behind = self.held_position < flushed_position or self.stored_position < flushed_position
        self._too_few_replicas = None
        self.held_position = max(self.held_position, held_position)
        self.stored_position = max(self.stored_position, stored_position)
        if self._unheld:
            self._note_held(held_position)
        if was_behind:
            self._release(self._clock.monotonic_us())
            self._events.replicas_followed()
        elif not self._replication_table.is_empty:
            self._replication_table.resume_through(self.held_position)

    def replication_failed(self, error: HutongError) -> None:
        """Refuse continuations that wait for replicas, until something is replicated again. Flushes continue."""
        refusal = Refused(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, f"Stored here, but on too few replicas: {error}")
        self._too_few_replicas = refusal
        for qos in (_REPLICATION, Qos.ALL):
            self._tables[qos].fail_all(refusal)
        # Without replicas only the flush decides which bytes must stay in memory.
        self.released_position = max(self.released_position, self.flushed_position)
        self._events.replicas_followed()

    def refuse(self, error: HutongError) -> int:
        """Fail every parked acknowledgement, and each new one, until `accept`. Returns how many were parked."""
        self._refusal = error
        return sum(table.fail_all(error) for table in self._tables.values())

    def accept(self) -> None:
        """Let continuations be parked again."""
        self._refusal = None

    def stop(self) -> None:
        """Cancel all deadlines."""
        for table in self._tables.values():
            table.stop_timers()

    def check_invariants(self) -> None:
        assert self.released_position <= self.flushed_position
        for table in self._tables.values():
            table.check_invariants()

    def _release(self, now_us: int) -> None:
        """Resume everything that the positions allow.

        Watermarks before acknowledgements: a producer that was answered can read its own record.
        """
        flushed_position, held_position = self.flushed_position, self.held_position
        committed_position = self.committed_position
        # A replicator that has failed cannot keep the cache full: producers that wait for the disk alone go on.
        kept_from = flushed_position
        if self._too_few_replicas is None:
            kept_from = min(flushed_position, held_position)
        self.released_position = max(self.released_position, kept_from)
        invisible, safe_us = self._invisible, self._figures.safe_us
        while invisible and invisible[0][0] <= committed_position:
            _, begun_us, log_ends = invisible.popleft()
            safe_us.record(now_us - begun_us)
            for log, end_offset in log_ends:
                if end_offset > log.high_watermark:  # of receive-QoS logs it is past already
                    log.advance_high_watermark(end_offset)
        # In the order of `_tables`, without a call of `released_through` for each: every flush comes here.
        positions = flushed_position, held_position, committed_position
        for table, position in zip(self._tables.values(), positions, strict=True):
            if not table.is_empty:
                table.resume_through(position)

    def _note_held(self, position: int) -> None:
        unheld, replicate = self._unheld, self._figures.replicate_us
        now_us = self._clock.monotonic_us()
        while unheld and unheld[0][0] <= position:
            replicate.record(now_us - unheld.popleft()[1])
