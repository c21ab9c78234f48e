"""Idempotent producers of one log: which batch is new, which is a repetition, which came out of order (KIP-98).

Strategy: per producer id the newest epoch and its last five batches, as many as a client may have in flight
(`max.in.flight.requests.per.connection`). A repetition within them is answered with its original offset. An older one
is known by its sequence alone, because the state counts how many sequences the log has without a gap. Any other
sequence that does not follow is refused. Without state for a producer, because it is new or was forgotten, any sequence
is accepted (KIP-360). The longest silent producer is forgotten first, when its time is over or the bound is reached.

A producer whose transaction is open is not forgotten, and brings no plain batch into it. The marker that ends it may
raise the producer's epoch (KIP-890), and batches with the old one are refused from then on.

Knows no clock, no disk: time and offsets arrive with each batch, and replaying the same batches gives the same state.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode

BATCHES_REMEMBERED: Final = 5
SEQUENCE_MAX: Final = 2**31 - 1
NO_COORDINATOR_EPOCH: Final = -1
PASSED_OVER_MAX: Final = 16  # producers in transactions, when the longest silent is forgotten
UNKNOWN_OFFSET: Final = -1  # of a repetition that is behind the remembered batches
# Half of all sequences: above it, a distance backwards could as well be one forwards, past 2^31 - 1.
SEQUENCES_STORED_MAX: Final = 2**30
NO_SEQUENCE: Final = -1  # of control batches, which belong to a producer's transaction but carry no sequence


class RememberedBatch(NamedTuple):
    """One accepted batch: its first and last sequence and the offset of its first record."""

    base_sequence: int
    last_sequence: int
    base_offset: int


class ProducerState:
    """The state of one producer. `batches` are its newest ones, oldest first, all of `epoch`.

    `sequences_stored` is how many sequences the log has without a gap, up to the newest one.
    `coordinator_epoch` is that of its newest marker. Never changed, only replaced, so that any thread may read it.
    """

    __slots__ = ("batches", "coordinator_epoch", "epoch", "seen_at_ms", "sequences_stored")

    def __init__(
        self,
        epoch: int,
        seen_at_ms: int,
        batches: tuple[RememberedBatch, ...] = (),
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        sequences_stored: int = 0,
    ) -> None:
        self.epoch = epoch
        self.seen_at_ms = seen_at_ms
        self.batches = batches
        self.coordinator_epoch = coordinator_epoch
        self.sequences_stored = sequences_stored


def sequence_after(sequence: int, count: int) -> int:
    """The sequence `count` records on: 2^31 - 1 is followed by 0."""
    return (sequence + count) & SEQUENCE_MAX


def distance(earlier: int, later: int) -> int:
    """The number of records from sequence `earlier` on to `later`: 1 for neighbours."""
    return (later - earlier) & SEQUENCE_MAX


class Producers:
    """The producers of one log, longest silent first; at most `producers_max`.

    `in_transaction` has the ids of those whose transaction is open.
    """

    __slots__ = ("_is_shared", "_producers_max", "_states", "expiry_ms", "in_transaction")

    def __init__(self, producers_max: int, expiry_ms: int) -> None:
        self._producers_max = producers_max
        self.expiry_ms = expiry_ms
        self._states: OrderedDict[int, ProducerState] = OrderedDict()
        self._is_shared = False  # somebody reads `_states` as it is now
        self.in_transaction: Collection[int] = ()

    def __len__(self) -> int:
        return len(self._states)

    def admit(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        count: int,
        base_offset: int,
        now_ms: int,
        is_transactional: bool = False,
    ) -> int | None:
        """Take in a batch of `count` records that would get `base_offset`.

        Returns None if it is new, and remembers it; the original base offset if it is a repetition, or UNKNOWN_OFFSET
        if newer batches have displaced it. Raises Refused with
        OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH or INVALID_TXN_STATE, and remembers nothing.
        """
        state = self._states.get(producer_id)
        # KIP-360: a producer without state may begin anywhere, since its batches may have expired.
        if state is not None and base_sequence != NO_SEQUENCE:
            last_sequence = sequence_after(base_sequence, count - 1)
            # Before the order is checked: a repetition is out of order by its nature, and is no fault.
            original = repetition_of(state, epoch, base_sequence, last_sequence)
            if original is not None:
                return original
            _check_order(state, producer_id, epoch, base_sequence)
        # A plain batch in the middle of a transaction would be read as a part of it.
        if not is_transactional and producer_id in self.in_transaction:
            raise Refused(
                ErrorCode.INVALID_TXN_STATE, f"The transaction of producer {producer_id} is open; the batch is not its."
            )
        self.remember(producer_id, epoch, base_sequence, count, base_offset, now_ms)
        return None

    def remember(
        self, producer_id: int, epoch: int, base_sequence: int, count: int, base_offset: int, now_ms: int
    ) -> None:
        """Note a batch of the log without checks: `admit` has made them, or recovery needs none."""
        state = self._states.get(producer_id)
        batches: tuple[RememberedBatch, ...] = ()
        sequences_stored = 0
        if state is not None and state.epoch == epoch:
            batches, sequences_stored = state.batches, state.sequences_stored
        if base_sequence != NO_SEQUENCE:
            # Compaction has removed a batch in between: what was before the gap is not known to have been stored.
            if batches and base_sequence != sequence_after(batches[-1].last_sequence, 1):
                sequences_stored = 0
            sequences_stored = min(sequences_stored + count, SEQUENCES_STORED_MAX)
            last_sequence = sequence_after(base_sequence, count - 1)
            batches = (*batches[1 - BATCHES_REMEMBERED :], RememberedBatch(base_sequence, last_sequence, base_offset))
        coordinator_epoch = NO_COORDINATOR_EPOCH if state is None else state.coordinator_epoch
        # Copy on write: a checkpoint reads the old states on another thread.
        if self._is_shared:
            self._states, self._is_shared = self._states.copy(), False
        self._states[producer_id] = ProducerState(epoch, now_ms, batches, coordinator_epoch, sequences_stored)
        self._states.move_to_end(producer_id)
        self._forget_silent(now_ms)

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Check a marker's epochs. Raises Refused with INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED."""
        state = self._states.get(producer_id)
        if state is None:
            return
        if epoch < state.epoch:
            raise _old_epoch(state, producer_id, epoch)
        # A coordinator that was replaced may not end a transaction that its successor has decided.
        if coordinator_epoch < state.coordinator_epoch:
            raise Refused(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"A coordinator of epoch {state.coordinator_epoch} has written here; {coordinator_epoch} is older.",
            )

    def record_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, now_ms: int) -> None:
        """Note a marker: it has no sequence, and an epoch that is newer makes everything before it old."""
        self.remember(producer_id, epoch, NO_SEQUENCE, 1, 0, now_ms)
        state = self._states[producer_id]
        self._states[producer_id] = ProducerState(
            epoch, now_ms, state.batches, coordinator_epoch, state.sequences_stored
        )

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def items(self) -> Iterable[tuple[int, ProducerState]]:
        """All producers; iterate before the next change."""
        return self._states.items()

    def restore(self, producer_id: int, state: ProducerState) -> None:
        """Restore a producer from a checkpoint. States arrive longest silent first."""
        self._states[producer_id] = state

    def states(self) -> Mapping[int, ProducerState]:
        """Every producer's state by id, longest silent first, as a snapshot that any thread may read.

        Costs nothing here: the next change is made to a copy.
        """
        self._is_shared = True
        return self._states

    def check_invariants(self) -> None:
        assert len(self._states) <= self._producers_max
        for state in self._states.values():
            assert len(state.batches) <= BATCHES_REMEMBERED
            pairs = pairwise(state.batches)
            assert all(after.base_sequence == sequence_after(before.last_sequence, 1) for before, after in pairs)
            assert state.sequences_stored <= SEQUENCES_STORED_MAX

    def _forget_silent(self, now_ms: int) -> None:
        states = self._states
        passed_over = 0
        while states:
            producer_id = next(iter(states))
            silent_ms = now_ms - states[producer_id].seen_at_ms
            # The longest silent comes first, so the first one that may stay ends the pass.
            if silent_ms < self.expiry_ms and len(states) <= self._producers_max:
                return
            if producer_id not in self.in_transaction:
                del states[producer_id]
            # Bounded, since all producers may be in transactions, and every batch comes here.
            elif passed_over < PASSED_OVER_MAX:
                states.move_to_end(producer_id)  # it is checked again after its transaction has ended
                passed_over += 1
            # The bound on memory wins, even over an open transaction.
            elif len(states) > self._producers_max:
                del states[producer_id]
            else:
                return


def repetition_of(state: ProducerState, epoch: int, base_sequence: int, last_sequence: int) -> int | None:
    """The offset of a batch that is stored already, UNKNOWN_OFFSET if it is not remembered; None of any other batch."""
    if epoch != state.epoch:
        return None
    for batch in state.batches:
        if batch.base_sequence == base_sequence and batch.last_sequence == last_sequence:
            return batch.base_offset
    # A producer with requests to two leaders may repeat a batch that the next leader has from the first one, after five
    # others. Kafka answers OUT_OF_ORDER_SEQUENCE_NUMBER there, and Java's producer repeats the batch for ever.
    if state.batches:
        behind = distance(base_sequence, state.batches[-1].last_sequence) + 1
        remembered = distance(state.batches[0].base_sequence, state.batches[-1].last_sequence) + 1
        is_before = distance(base_sequence, last_sequence) < behind - remembered
        if is_before and behind <= state.sequences_stored:
            return UNKNOWN_OFFSET
    return None


def _check_order(state: ProducerState, producer_id: int, epoch: int, base_sequence: int) -> None:
    if epoch < state.epoch:
        raise _old_epoch(state, producer_id, epoch)
    expected = 0  # of a new epoch, also where only a marker of it was seen
    if epoch == state.epoch and state.batches:
        expected = sequence_after(state.batches[-1].last_sequence, 1)
    if base_sequence != expected:
        raise Refused(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Producer {producer_id} sent sequence {base_sequence} where {expected} was expected.",
        )


def _old_epoch(state: ProducerState, producer_id: int, epoch: int) -> Refused:
    return Refused(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"Producer {producer_id} has epoch {state.epoch} here; {epoch} is an older one.",
    )
