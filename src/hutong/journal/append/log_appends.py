"""Appending to one log: one entry point for batches, one for waiting until they are safe, one for transaction markers.

Strategy: `append` decides at once, on the caller's thread: offsets, repetition or refusal. It hands the batches to the
journal's writer and returns. Waiting is a separate step (`when_safe`), as in Kafka's produce path, so a request that
appends to a thousand logs of one journal waits once. Two fast paths are behind `append`, both measured:

- batches that came together share the checks of the log and one result: 0.8 instead of 1.2 us for each small batch;
- a batch that is acknowledged without the disk (QoS RECEIVE) and that nobody reads yet is deferred by the writer, so
  that it shares a chunk and a flush with batches of later loop iterations.

Knows nothing of requests. The batches were validated by the caller.
"""

from collections.abc import Sequence
from typing import Final

from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.append.log_tail import LogTail
from hutong.journal.append.producers import UNKNOWN_OFFSET, Producers
from hutong.journal.append.qos import Qos
from hutong.journal.append.transactions import LogTransactions
from hutong.journal.append.writer import Writer
from hutong.journal.settings import JournalSettings
from hutong.wire.kafka.batch.control_records import build_marker
from hutong.wire.kafka.batch.records import TRANSACTIONAL, BatchHeader
from hutong.wire.kafka.error_codes import ErrorCode

NO_APPEND_TIME: Final = -1
_RECEIVE: Final = Qos.RECEIVE  # looked up once: a member of an enum costs 40 ns of an append's 1,000


class Appended:
    """The result of an append.

    `batch_count` is how many of the given batches it covers, always from the first. `append_time_ms` is -1 unless the
    log stamps its records itself. `is_safe`: they are as safe as was asked for, so there is nothing to wait for.
    """

    __slots__ = ("append_time_ms", "base_offset", "batch_count", "is_safe", "start_offset")

    def __init__(
        self, base_offset: int, append_time_ms: int, start_offset: int, batch_count: int, is_safe: bool
    ) -> None:
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self.start_offset = start_offset
        self.batch_count = batch_count
        self.is_safe = is_safe


class LogAppends(LogTail):
    """The writing half of a log: batches, idempotent producers, transactions."""

    __slots__ = ("_batch_bytes_max", "_settings", "_writer", "markers_total", "producers", "transactions", "when_safe")

    def __init__(
        self, partition_id: int, start_offset: int, end_offset: int, writer: Writer, settings: JournalSettings
    ) -> None:
        super().__init__(partition_id, start_offset, end_offset)
        self.producers: Producers | None = None
        self.transactions: LogTransactions | None = None  # until the first transactional batch
        self.markers_total = 0  # appended since the start
        self.when_safe = writer.when_safe  # the method itself: one call less, of 45 ns, on the way of every produce
        self._writer = writer
        self._settings = settings
        self._batch_bytes_max = min(settings.batch_bytes_max, settings.segment_bytes)

    def append(self, batches: Sequence[tuple[memoryview, BatchHeader]], qos: Qos) -> Appended | HutongError:
        """Append batches that came together, each with its parsed header; their offsets are fixed on return.

        Returns the reason if the first batch is refused: Refused with Kafka's code, LimitExceeded while too much is
        unflushed. A repetition of an earlier batch (KIP-98) is not appended again; the result has the original's
        offset, or UNKNOWN_OFFSET. Only the first batch may be a repetition or refused: a later one ends the append
        before it, and `batch_count` shows it. The batches must not change until the end of the loop iteration.
        """
        writer = self._writer
        # Returned, not raised: the same error serves every batch until the reason is over, and an exception that is
        # raised again and again keeps the frames of its callers, with their batches.
        if writer.refusal is not None:
            return writer.refusal
        if self.is_deleted:  # a request that was held meanwhile
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition was deleted.")
        # Without a waiting producer and without readers nobody notices a chunk that is sealed later.
        is_safe = qos <= _RECEIVE
        is_urgent = not is_safe or not self.receive_qos or len(self._watchers) > 0
        first_offset = end_offset = self.end_offset
        count = 0
        for batch, header in batches:
            size = len(batch)
            # One test for the common batch: without a producer id (KIP-98) there is nothing to check but the size.
            if header.producer_id >= 0 or size > self._batch_bytes_max:
                outcome = self._check(batch, header, qos)
                if outcome is not None:
                    if count:
                        break  # the caller gets it as the first batch of its next append
                    return outcome
            # The log's end moves before the writer sees the batch: a full chunk is sealed in there, and its watchers
            # may append to this log again.
            base_offset = end_offset
            self.end_offset = end_offset = base_offset + header.last_offset_delta + 1
            writer.add_batch(self, base_offset, end_offset, batch, size, header.max_timestamp_ms, is_urgent)
            count += 1
        if not is_urgent:
            # The writer holds the batches and moves them to the cache later. Both are memory of one process, so
            # waiting for the move would make nothing safer; a read seals what it needs.
            self.high_watermark = end_offset
        # message.timestamp.type=LogAppendTime: the answer carries the time that the writer stamps into the batches.
        append_time_ms = writer.wall_ms if self.log_append_time else NO_APPEND_TIME
        return Appended(first_offset, append_time_ms, self.start_offset, count, is_safe)

    def begin_together(self, size: int) -> None:
        """Let the batches that are appended next, here and to other logs of this journal, be kept or lost together.

        They have `size` bytes in all, and a QoS above RECEIVE.
        """
        self._writer.begin_together(size)

    def when_flushed(self, then: Continuation[None]) -> None:
        """Call `then` with None once all that was done to the log so far is on disk, or with the reason it is not."""
        self._writer.when_flushed(then)

    def when_committed(self, then: Continuation[None]) -> None:
        """Call `then` with None once all that was done to the log so far is on the disks of all in-sync replicas."""
        self._writer.seal_chunk()
        self._writer.when_safe(Qos.ALL, then)

    def alter_settings(self, settings: JournalSettings) -> None:
        """Use another expiry of producers from now on."""
        self._settings = settings
        if self.producers is not None:
            self.producers.expiry_ms = settings.producer_expiry_ms

    # -- transactions

    @property
    def last_stable_offset(self) -> int:
        """The end of what a committed reader may see: every transaction with a batch before it has visibly ended."""
        transactions = self.transactions
        if transactions is None:
            return self.high_watermark
        return max(self.start_offset, transactions.stable_offset(self.high_watermark))

    def open_transaction(self, producer_id: int) -> int | None:
        """The first offset of the producer's open transaction here, None if it has none."""
        return self.transactions.open.get(producer_id) if self.transactions is not None else None

    def is_in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """True if the producer has an open transaction of that epoch here."""
        transactions, producers = self.transactions, self.producers
        if transactions is None or producers is None or producer_id not in transactions.open:
            return False
        state = producers.get(producer_id)
        return state is not None and state.epoch == producer_epoch

    def aborted_between(self, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """Producer id and first offset of each aborted transaction from `start_offset` to before `end_offset`."""
        return self.transactions.aborted.between(start_offset, end_offset) if self.transactions is not None else []

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        is_commit: bool,
        coordinator_epoch: int,
        then: Continuation[None],
    ) -> None:
        """End the producer's transaction here, or record that it has none; `then` is called once that is safe at ALL.

        `then` gets the reason at once if the marker is refused: Refused with INVALID_PRODUCER_EPOCH or
        TRANSACTION_COORDINATOR_FENCED for a late one, and everything that `append` returns as a refusal. An epoch
        newer than the producer's becomes its epoch (KIP-890).
        """
        writer = self._writer
        producers = self.known_producers()
        try:
            producers.check_marker(producer_id, producer_epoch, coordinator_epoch)
        except Refused as refused:
            then(refused)
            return
        if writer.refusal is not None:
            then(writer.refusal)
            return
        if self.is_deleted:
            then(Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition was deleted."))
            return
        # A marker is one control record in a batch of its own, as Kafka's (KIP-98).
        now_ms = writer.wall_ms
        marker = build_marker(
            producer_id, producer_epoch, is_commit=is_commit, coordinator_epoch=coordinator_epoch, timestamp_ms=now_ms
        )
        offset = self.end_offset
        self.end_offset = offset + 1
        self.markers_total += 1
        producers.record_marker(producer_id, producer_epoch, coordinator_epoch, now_ms)
        if self.transactions is not None:
            self.transactions.end(producer_id, offset, is_commit=is_commit)
        writer.add_batch(self, offset, offset + 1, marker, len(marker), now_ms, is_urgent=True)
        # The coordinator forgets the transaction once all markers are safe, so they need the strongest level.
        writer.when_safe(Qos.ALL, then)

    # -- idempotent producers

    def _check(self, batch: memoryview, header: BatchHeader, qos: Qos) -> Appended | HutongError | None:
        """The result for a batch that is refused or a repetition; None for one to be appended."""
        if len(batch) > self._batch_bytes_max:
            return Refused(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"A batch of {len(batch)} bytes; this journal takes {self._batch_bytes_max}.",
            )
        try:
            original = self._admit(header)
        except Refused as refused:
            return refused
        if original is None:
            return None
        # A visible batch of a receive-QoS log may still be unflushed, so there its repetition waits like the original.
        is_visible = original != UNKNOWN_OFFSET and original < self.high_watermark
        is_safe = qos <= Qos.RECEIVE or (is_visible and not self.receive_qos)
        return Appended(original, NO_APPEND_TIME, self.start_offset, 1, is_safe)

    def _admit(self, header: BatchHeader) -> int | None:
        """The original's base offset, or UNKNOWN_OFFSET, of a repetition. Raises Refused, with nothing changed."""
        producers = self.producers
        if producers is None:
            producers = self.known_producers()
        is_transactional = header.attributes & TRANSACTIONAL != 0
        original = producers.admit(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.last_offset_delta + 1,
            self.end_offset,
            self._writer.wall_ms,
            is_transactional,
        )
        # A repetition belongs to a transaction that its original has opened already.
        if is_transactional and original is None:
            self.begin_transactions().begin_transaction(header.producer_id, self.end_offset)
        return original

    def known_producers(self) -> Producers:
        """The producers of the log, from its first idempotent batch on."""
        if self.producers is None:
            self.producers = Producers(self._settings.producers_max, self._settings.producer_expiry_ms)
        return self.producers

    def begin_transactions(self) -> LogTransactions:
        """The transactions of the log, from its first transactional batch on."""
        if self.transactions is None:
            self.transactions = LogTransactions()
            self.known_producers().in_transaction = self.transactions.open
        return self.transactions
