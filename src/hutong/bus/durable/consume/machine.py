"""The machine of a consumer of a durable address: events in, instructions out.

Strategy: each partition holds its records in the order of the log until they are handled or given up. The offset that
may be committed is that of the oldest record not yet done, so nothing unfinished is ever passed. Records wait in
queues: one queue for the whole partition, or one for each key; only the first of a queue is in hand, and what failed
keeps its queue waiting until its next attempt, so order is kept by construction. A slot is taken before a handler
begins and freed with its outcome, even if the partition was revoked meanwhile; a partition that comes back while an old
handler still runs waits for it.

Knows nothing of brokers, loops, clocks or chance: time arrives with events, chance by constructor, and the driver
carries out the instructions. For each Deliver it must bring one Handled or Failed, for each SendDeadLetter one
DeadLetterStored or DeadLetterNotStored, for each WriteNote one NoteWritten.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from hutong.bus.durable.consume.caution import Caution, CautionNote
from hutong.bus.durable.consume.messages import (
    Arrived,
    ConsumerBounds,
    DeadLetterNotStored,
    DeadLetterStored,
    Deliver,
    Demand,
    Event,
    Failed,
    FetchedRecord,
    Handled,
    Instruction,
    NoteWritten,
    PartitionAssigned,
    PartitionState,
    Pause,
    RecordEntry,
    RecordState,
    Resume,
    RevertNote,
    Revoked,
    SendDeadLetter,
    Stop,
    WriteNote,
)
from hutong.bus.durable.consume.retry import Order, Retry
from hutong.foundation.machine import Tick

PROCESS_ENDED: Final = "ProcessEnded"


class DurableConsumerMachine:
    """All partitions of one consumer. `has_dead_letters` False: who gives up a message stops."""

    def __init__(
        self,
        retry: Retry,
        order: Order,
        chance: Callable[[], float],
        bounds: ConsumerBounds = ConsumerBounds(),  # noqa: B008  # frozen
        *,
        has_dead_letters: bool = True,
    ) -> None:
        self.is_stopped = False
        self._retry = retry
        self._order = order
        self._chance = chance
        self._bounds = bounds
        self._has_dead_letters = has_dead_letters
        self._partitions: dict[int, PartitionState] = {}
        self._old_handlers: dict[int, int] = {}  # handlers still running of a partition that was revoked
        self._slots = bounds.handling
        self._demand: int | None = 0
        self._ready: deque[RecordEntry] = deque()  # first of their queues, by their coming
        self._due: list[tuple[int, int, RecordEntry]] = []  # heap; when, which, what
        self._due_count = 0
        self._out: list[Instruction] = []
        self._handlers: dict[type, Callable[..., None]] = {
            PartitionAssigned: self._assign,
            Revoked: self._revoke,
            Arrived: self._arrive,
            NoteWritten: self._note_written,
            Handled: self._handled,
            Failed: self._failed,
            DeadLetterStored: self._dead_letter_stored,
            DeadLetterNotStored: self._dead_letter_not_stored,
            Demand: self._set_demand,
            Tick: self._tick,
        }

    def handle(self, event: Event) -> list[Instruction]:
        self._handlers[type(event)](event)
        if self._ready:
            self._fill_slots()
        out, self._out = self._out, []
        return out

    def next_tick_ms(self) -> int | None:
        """The time at which the driver must call back, or None."""
        return self._due[0][0] if self._due else None

    def take_commits(self) -> dict[int, tuple[int, CautionNote]]:
        """Offsets that may be committed and were not yet taken, with the note that goes with them."""
        taken = {}
        for partition in self._partitions.values():
            if partition.position > partition.committed:
                partition.committed = partition.position
                caution = partition.caution
                taken[partition.number] = (partition.position, caution.note_between() if caution else CautionNote())
        return taken

    def give_back_commits(self, partitions: Iterable[int]) -> None:
        """Their commit failed: they are taken again next time."""
        for number in partitions:
            # Another member commits for a partition that was revoked meanwhile.
            if number in self._partitions:
                self._partitions[number].committed = -1

    def final_positions(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offsets to commit when the partitions are given up in order."""
        return {number: self._partitions[number].position for number in partitions if number in self._partitions}

    @property
    def assigned(self) -> list[int]:
        return list(self._partitions)

    @property
    def handling(self) -> int:
        """Slots taken."""
        return self._bounds.handling - self._slots

    def check_invariants(self) -> None:
        entries = [entry for partition in self._partitions.values() for entry in partition.entries]
        in_hand = sum(entry.state in (RecordState.NOTING, RecordState.HANDLING) for entry in entries)
        assert in_hand + sum(self._old_handlers.values()) == self.handling <= self._bounds.handling
        for partition in self._partitions.values():
            offsets = [entry.offset for entry in partition.entries]
            assert offsets == sorted(set(offsets))
            assert not partition.entries or partition.entries[0].state is not RecordState.DONE
            assert not offsets or max(partition.committed, partition.position) <= offsets[0]
            assert partition.bytes_held == sum(entry.record.size_bytes for entry in partition.entries)
            queued = [entry for queue in partition.queues.values() for entry in queue]
            assert set(queued) == {entry for entry in partition.entries if entry.state is not RecordState.DONE}
            for queue in partition.queues.values():
                assert all(entry.state is RecordState.QUEUED for entry in list(queue)[1:])

    def _assign(self, event: PartitionAssigned) -> None:
        assert event.partition not in self._partitions, "assigned twice"
        partition = PartitionState(event.partition, event.offset, event.offset)
        partition.caution = Caution(event.note) if event.note is not None else None
        # Records below the committed offset are repeats.
        partition.last_offset = event.offset - 1
        self._partitions[event.partition] = partition

    def _revoke(self, event: Revoked) -> None:
        for number in event.partitions:
            partition = self._partitions.pop(number, None)
            for entry in partition.entries if partition else ():
                # Handlers cannot be stopped. Until they end, a partition that comes back must not deliver the same
                # records.
                if entry.state in (RecordState.NOTING, RecordState.HANDLING):
                    self._old_handlers[number] = self._old_handlers.get(number, 0) + 1
                # Results of dropped entries count for nothing: the new owner handles them.
                entry.state = RecordState.DROPPED
        self._ready = deque(entry for entry in self._ready if entry.state is RecordState.READY)
        self._due = [due for due in self._due if due[2].state is not RecordState.DROPPED]
        heapify(self._due)

    def _arrive(self, event: Arrived) -> None:
        partition = self._partitions.get(event.partition)
        # Fetched before a rebalance that took the partition away, and delivered after it.
        if partition is None:
            return
        for record in event.records:
            if record.offset <= partition.last_offset:
                continue  # fetched again, by a client that lost its place
            partition.last_offset = record.offset
            entry = RecordEntry(partition, record, self._queue_key(partition, record))
            partition.entries.append(entry)
            partition.bytes_held += record.size_bytes
            self._queue(partition, entry)
        # Counted and weighed: a thousand small records or a few large ones fill the memory.
        full = len(partition.entries) >= self._bounds.records or partition.bytes_held >= self._bounds.bytes
        if full and not partition.is_paused:
            partition.is_paused = True
            self._out.append(Pause(partition.number))

    def _queue_key(self, partition: PartitionState, record: FetchedRecord) -> Hashable:
        # One queue for all. After a crash messages are taken one at a time, to find the one that crashes the process.
        if self._order is Order.PARTITION or partition.caution is not None:
            return None
        # A record without a key has no order to keep.
        return record.offset if record.key is None else record.key

    def _queue(self, partition: PartitionState, entry: RecordEntry) -> None:
        queue = partition.queues.get(entry.queue_key)
        if queue is not None:
            queue.append(entry)
        else:
            partition.queues[entry.queue_key] = deque((entry,))
            self._make_ready(entry)

    def _make_ready(self, entry: RecordEntry) -> None:
        """Queue an entry for a slot: it is the first of its queue, or its pause is over."""
        entry.state = RecordState.READY
        self._ready.append(entry)

    def _is_blocked(self, entry: RecordEntry) -> bool:
        return self.is_stopped or (bool(self._old_handlers) and entry.partition.number in self._old_handlers)

    def _fill_slots(self) -> None:
        """Give free slots to ready entries, first come, first served."""
        held = []
        # None means no demand is set: then slots alone bound it.
        while self._ready and self._slots and self._demand != 0:
            entry = self._ready.popleft()
            if self._is_blocked(entry):
                held.append(entry)
            else:
                self._take_slot(entry)
        # Entries of a partition whose old handlers still run: back in front, in their order.
        self._ready.extendleft(reversed(held))

    def _take_slot(self, entry: RecordEntry) -> None:
        caution = entry.partition.caution
        if caution is not None and entry.offset != entry.partition.position:
            caution.crashes = 0  # those were of a message that is not in the log any more
        # Before the handler runs: it would crash the process again.
        if caution is not None and self._has_crashed_too_often(caution):
            return self._give_up(entry)
        self._slots -= 1
        if self._demand is not None:
            self._demand -= 1
        # The note is written before delivery, so that the next process knows which message was in hand.
        if caution is not None and caution.is_note_due:
            entry.state = RecordState.NOTING
            # The note is stored with this offset, so this is a commit as well.
            entry.partition.committed = entry.offset
            self._out.append(WriteNote(entry, caution.note_before()))
        else:
            self._deliver(entry)
        return None

    def _has_crashed_too_often(self, caution: Caution) -> bool:
        return self._retry.crashes is not None and caution.crashes >= self._retry.crashes

    def _deliver(self, entry: RecordEntry) -> None:
        entry.state = RecordState.HANDLING
        entry.attempts += 1
        self._out.append(Deliver(entry))

    def _free_slot(self, entry: RecordEntry) -> bool:
        """False if the partition went away meanwhile: what the handler did counts for nothing."""
        self._slots += 1
        if entry.state is not RecordState.DROPPED:
            return True
        number = entry.partition.number
        self._old_handlers[number] -= 1
        # The last old handler has ended: the partition may deliver again.
        if not self._old_handlers[number]:
            del self._old_handlers[number]
        return False

    def _note_written(self, event: NoteWritten) -> None:
        entry = event.entry
        if entry.state is not RecordState.DROPPED and not self.is_stopped:
            self._deliver(entry)
            self._end_caution(entry.partition)
        # The consumer stopped while the note was on its way: the entry waits, and a restart begins with it.
        elif self._free_slot(entry):
            entry.state = RecordState.READY
            self._ready.append(entry)

    def _handled(self, event: Handled) -> None:
        if self._free_slot(event.entry):
            self._finish(event.entry)

    def _failed(self, event: Failed) -> None:
        entry = event.entry
        if not self._free_slot(entry):
            return
        entry.error_type, entry.error_text = event.error_type, event.error_text
        entry.first_failure_ms = entry.first_failure_ms or event.wall_ms
        entry.last_failure_ms = event.wall_ms
        note = entry.partition.caution.failed() if entry.partition.caution is not None else None
        if note is not None:  # it was not this one that ended the process, not this time
            self._out.append(RevertNote(entry.partition.number, entry.offset, note))
        # A handler may declare a failure final, such as a malformed message.
        if event.is_final or self._retry.gives_up_after(entry.attempts):
            self._give_up(entry)
        else:
            delay_ms = event.after_ms
            if delay_ms is None:
                delay_ms = self._retry.delay_ms(entry.attempts, self._chance())
            entry.state = RecordState.WAITING
            self._park_until(entry, event.now_ms + delay_ms)

    def _park_until(self, entry: RecordEntry, due_ms: int) -> None:
        self._due_count += 1
        heappush(self._due, (due_ms, self._due_count, entry))

    def _give_up(self, entry: RecordEntry) -> None:
        if not entry.error_type:
            entry.error_type = PROCESS_ENDED
            entry.error_text = f"the process ended {self._retry.crashes} times while this message was in hand"
        if self._has_dead_letters:
            entry.state = RecordState.SENDING_DEAD_LETTER
            self._out.append(SendDeadLetter(entry))
        else:
            self._stop(
                entry, f"it failed {entry.attempts} times ({entry.error_type}) and there is no dead-letter topic"
            )

    def _stop(self, entry: RecordEntry, reason: str) -> None:
        self.is_stopped = True
        self._out.append(Stop(f"the message at partition {entry.partition.number}, offset {entry.offset}: {reason}"))

    def _dead_letter_stored(self, event: DeadLetterStored) -> None:
        if event.entry.state is RecordState.SENDING_DEAD_LETTER:
            self._finish(event.entry)

    def _dead_letter_not_stored(self, event: DeadLetterNotStored) -> None:
        entry = event.entry
        if entry.state is RecordState.DROPPED:
            return
        if event.is_hopeless:
            # Skipping it would lose it, and retrying cannot help: a person must look.
            self._stop(entry, f"its dead letter was refused: {event.reason}")
        else:
            # The log is unavailable for a while: the longest pause, since the message can only wait.
            self._park_until(entry, event.now_ms + max(1, round(self._retry.delay_max * 1000)))

    def _set_demand(self, event: Demand) -> None:
        # 0 pauses at once: demand that was left is dropped.
        if event.count is None or event.count == 0:
            self._demand = event.count
        # Unlimited demand stays so: `fetch` after `resume` asks for nothing more.
        elif self._demand is not None:
            self._demand += event.count

    def _tick(self, event: Tick) -> None:
        while self._due and self._due[0][0] <= event.now_ms:
            entry = heappop(self._due)[2]
            # Back-off is over. It is still the first of its queue, and needs a slot like any other.
            if entry.state is RecordState.WAITING:
                self._make_ready(entry)
            # The letter was refused for a while: no slot is needed to send it again, since no handler runs.
            elif entry.state is RecordState.SENDING_DEAD_LETTER and not self.is_stopped:
                self._out.append(SendDeadLetter(entry))

    def _finish(self, entry: RecordEntry) -> None:
        """Finish an entry that is handled or buried: the offset may pass it, and its queue continues."""
        entry.state = RecordState.DONE
        partition = entry.partition
        queue = partition.queues[entry.queue_key]
        # It is the first: only the first of a queue is ever in hand.
        queue.popleft()
        if not queue:
            del partition.queues[entry.queue_key]
        self._prune(partition)
        if partition.caution is not None:
            partition.caution.ended()
        if queue:
            self._make_ready(queue[0])

    def _prune(self, partition: PartitionState) -> None:
        entries = partition.entries
        # The committed offset passes only finished entries without a gap.
        while entries and entries[0].state is RecordState.DONE:
            done = entries.popleft()
            partition.position = done.offset + 1
            partition.bytes_held -= done.record.size_bytes
        if (
            partition.is_paused
            # Resumed at half, so that a full partition does not pause and resume with every record.
            and len(entries) * 2 <= self._bounds.records
            and partition.bytes_held * 2 <= self._bounds.bytes
        ):
            partition.is_paused = False
            self._out.append(Resume(partition.number))

    def _end_caution(self, partition: PartitionState) -> None:
        """A note is written. After the last one the entries move from one queue to the queues of their order."""
        if partition.caution is None:
            return
        partition.caution.noted()
        if not partition.caution.is_over:
            return
        partition.caution = None
        partition.queues.clear()
        for entry in partition.entries:
            if entry.state is not RecordState.DONE:
                entry.queue_key = self._queue_key(partition, entry.record)
                queue = partition.queues.setdefault(entry.queue_key, deque())
                queue.append(entry)
                # First of its key: it was queued behind another key's entry.
                if len(queue) == 1 and entry.state is RecordState.QUEUED:
                    self._make_ready(entry)
