"""Offsets that belong to a transaction: they wait on disk for its end, which commits or drops them (KIP-98, KIP-447).

Strategy: each has a record of its own next to the committed ones, so that it survives a restart. The end of a
transaction rewrites a bounded number at a time: what is committed and the tombstone of what waited are one append, so
that after a crash an offset either waits still, for the coordinator to end it again, or is committed. The end first
awaits what is on its way to disk.

As in Kafka the order of the commits counts, not that of the ends: an offset that was committed outside the transaction
while this one waited stays. Kafka reads that order from the positions in its log. Here a snapshot writes old records
again behind newer ones, so that positions say nothing. Instead each commit is one append with the tombstones of
the waiting offsets that it overtakes, and waiting offsets have numbers that rise in the order of commits.

One whose record could not be stored is not applied, but its tombstone is written, because the record may turn up later.

Knows nothing of transactions beyond the producer's id, nor of members.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from hutong.foundation.errors import CorruptData, HutongError, LimitExceeded, Refused
from hutong.foundation.machine_host import StatePort, StateRecord
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import WaitTable
from hutong.groups.offsets.offset_log import Change
from hutong.groups.offsets.records import StoredOffset, decode_offset, encode_offset
from hutong.groups.offsets.store import OffsetStore
from hutong.groups.record_keys import OffsetKey, decode_key, encode_offset_key
from hutong.wire.kafka.error_codes import ErrorCode

# Not Kafka's: Kafka distinguishes the two by the batch. Its tools skip versions they do not know.
KEY_VERSION: Final = 1_000
_KEY: Final = struct.Struct(">hq")
_EPOCH: Final = struct.Struct(">h")
_NUMBERED: Final = -1  # takes the place of the producer's epoch, which is never negative, in a record with a number
_NUMBERED_VALUE: Final = struct.Struct(">hqh")  # that mark, the number, the epoch
_KEYS_PER_APPEND: Final = 1_000


@dataclass(slots=True, eq=False)
class _Waiting:
    """One offset that waits for the end of its producer's transaction."""

    committed: StoredOffset
    producer_epoch: int
    number: int  # rises in the order of commits
    is_doubtful: bool = False  # it was not stored, or so it seems


def is_transactional_key(key: bytes) -> bool:
    """Return True for a record of an offset that waits for a transaction."""
    return len(key) >= _KEY.size and _KEY.unpack_from(key)[0] == KEY_VERSION


class TransactionalOffsets:
    """Every offset of this node that waits for the end of a transaction."""

    def __init__(self, store: OffsetStore, state: StatePort, waits: WaitTable[None]) -> None:
        self._store = store
        self._state = state
        self._waits = waits
        self._by_producer: dict[int, dict[OffsetKey, _Waiting]] = {}
        self._by_group: dict[str, dict[OffsetKey, set[int]]] = {}  # group → key → producers
        self._arriving: dict[OffsetKey, Counter[int]] = {}  # key → producers with an append that is not durable yet
        self._unconfirmed: Counter[int | str] = Counter()  # producer, and group → appends that are not durable yet
        self._ending: Counter[int] = Counter()  # producer → ends under way
        self._next_number = 0
        self._closed: HutongError | None = None
        store.is_awaited = self._is_awaited

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._by_producer.values())

    # ---- questions

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Return True if an open transaction has an offset for the partition."""
        return self._is_awaited(OffsetKey(group_id, topic, partition))

    def holds(self, group_id: str) -> bool:
        """Return True if an offset of the group waits, or is being written."""
        return group_id in self._by_group or group_id in self._unconfirmed

    def groups(self) -> Iterator[str]:
        return iter(self._by_group)

    def has_begun(self, group_id: str, producer_id: int, producer_epoch: int) -> bool:
        """Return True if the producer's transaction has offsets of the group already, and nobody is ending it."""
        # A late commit would come behind the end, and wait for ever: the coordinator knows better, and refuses it.
        return producer_id not in self._ending and any(
            key.group_id == group_id and waiting.producer_epoch == producer_epoch and not waiting.is_doubtful
            for key, waiting in self._by_producer.get(producer_id, {}).items()
        )

    # ---- start

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the groups' topic, oldest first. Raises CorruptData."""
        producer_id = _KEY.unpack_from(key)[1]
        offset_key = decode_key(key[_KEY.size :])
        if not isinstance(offset_key, OffsetKey):
            raise CorruptData("a transactional offset is not one of a partition")
        if value is None:
            self._drop(producer_id, offset_key)
            return
        number, epoch, committed = _decode_value(value)
        self._put(producer_id, offset_key, _Waiting(committed, epoch, self._next_number if number is None else number))

    def apply_late(self, key: bytes, value: bytes | None) -> None:
        """Apply a record whose append had failed, and which is on disk after all. Raises CorruptData.

        One that waits since stays doubtful: its client has been answered with an error.
        """
        self.replay(key, value)
        producer_id = _KEY.unpack_from(key)[1]
        offset_key = decode_key(key[_KEY.size :])
        if value is not None and isinstance(offset_key, OffsetKey):
            self._by_producer[producer_id][offset_key].is_doubtful = True

    # ---- changes

    def write(
        self, group_id: str, producer_id: int, producer_epoch: int, changes: Sequence[Change], then: Continuation[None]
    ) -> None:
        """Store what the producer's transaction commits to one group; then call back."""
        number = self._next_number
        self._next_number += 1
        waiting = {
            key: _Waiting(committed, producer_epoch, number) for key, committed in changes if committed is not None
        }
        self._unconfirmed[group_id] += 1
        self._hold(producer_id)
        for key in waiting:
            self._arriving.setdefault(key, Counter())[producer_id] += 1

        def appended(error: HutongError | None) -> None:
            for key, one in waiting.items():
                self._arrived(producer_id, key)
                # After a failed append the record may be on disk all the same: the end has to write its tombstone.
                one.is_doubtful = error is not None
                self._put(producer_id, key, one)
            self._unconfirmed[group_id] -= 1
            if not self._unconfirmed[group_id]:
                del self._unconfirmed[group_id]
            self._release(producer_id)
            then(error)

        self._state.append_all([_record_of(producer_id, key, one) for key, one in waiting.items()], appended)

    def overtake(self, keys: Iterable[OffsetKey]) -> tuple[list[StateRecord], Continuation[None]]:
        """Return what a commit of these offsets appends with them, and the continuation of that append.

        The records drop the offsets that wait at this moment: the commit is later than they are.
        """
        found = [
            (producer_id, key)
            for key in keys
            for producer_id in {*self._producers_of(key), *self._arriving.get(key, ())}
        ]
        return self._drop_all(found)

    def end(self, producer_id: int, then: Continuation[None], *, is_commit: bool) -> None:
        """Commit or drop the offsets that wait for the end of the producer's transaction; then call back."""
        if self._closed is not None:
            then(self._closed)
            return
        self._ending[producer_id] += 1

        def ended(error: HutongError | None) -> None:
            self._ending[producer_id] -= 1
            if not self._ending[producer_id]:
                del self._ending[producer_id]
            then(error)

        self._end(producer_id, ended, is_commit)

    def close(self) -> None:
        """End nothing more; every end is refused, to be tried at another coordinator."""
        self._closed = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator of these offsets has closed.")
        self._waits.close(self._closed)

    def forget(self, keys: Iterable[OffsetKey], then: Continuation[None]) -> None:
        """Drop the offsets that wait for these partitions, of all producers."""
        found = [(producer_id, key) for key in keys for producer_id in self._producers_of(key)]
        self._forget(found, then)

    def forget_group(self, group_id: str, then: Continuation[None]) -> None:
        """Drop the group's waiting offsets."""
        self.forget(list(self._by_group.get(group_id, ())), then)

    def forget_topic(self, topic: str, then: Continuation[None]) -> None:
        """Drop waiting offsets of a deleted topic."""
        self.forget([key for keys in self._by_group.values() for key in keys if key.topic == topic], then)

    def check_invariants(self) -> None:
        by_group = {
            (producer_id, key) for keys in self._by_group.values() for key, ids in keys.items() for producer_id in ids
        }
        assert by_group == {(producer_id, key) for producer_id, keys in self._by_producer.items() for key in keys}
        assert all(self._by_producer.values())
        assert all(self._unconfirmed.values())
        assert all(producers and all(producers.values()) for producers in self._arriving.values())
        assert all(self._ending.values())

    # ---- inside

    def _is_awaited(self, key: OffsetKey) -> bool:
        keys = self._by_group.get(key.group_id)
        return keys is not None and key in keys

    def _producers_of(self, key: OffsetKey) -> list[int]:
        return list(self._by_group.get(key.group_id, {}).get(key, ()))

    def _end(self, producer_id: int, then: Continuation[None], is_commit: bool) -> None:
        """One append after the other, until nothing waits."""
        # Something is on its way to disk: an offset of the transaction, or a commit that overtakes one.
        if producer_id in self._unconfirmed:
            self._end_later(producer_id, then, is_commit)
            return
        slice_ = list(islice(self._by_producer.get(producer_id, {}).items(), _KEYS_PER_APPEND))
        if not slice_:
            then(None)
            return
        counting = [(key, waiting) for key, waiting in slice_ if is_commit and not waiting.is_doubtful]
        committed = [(encode_offset_key(key), encode_offset(waiting.committed)) for key, waiting in counting]
        own: list[StateRecord] = [(_encode_key(producer_id, key), None) for key, _ in slice_]
        tombstones, settle = self._drop_all([older for key, waiting in counting for older in self._older(key, waiting)])

        def appended(error: HutongError | None) -> None:
            if error is None:
                for key, waiting in counting:
                    self._store.apply(key, waiting.committed)
                for key, _ in slice_:
                    self._drop(producer_id, key)
            settle(error)
            if error is None:
                self._end(producer_id, then, is_commit)
            else:
                then(error)

        self._state.append_all([*committed, *own, *tombstones], appended)

    def _end_later(self, producer_id: int, then: Continuation[None], is_commit: bool) -> None:
        def arrived(error: HutongError | None) -> None:
            if error is not None:
                then(error)
            else:
                self._end(producer_id, then, is_commit)

        try:
            self._waits.park(producer_id, arrived)
        except LimitExceeded as error:
            then(error)

    def _older(self, key: OffsetKey, waiting: _Waiting) -> list[tuple[int, OffsetKey]]:
        """Offsets of other transactions for the partition that were committed before this one."""
        # What is on its way to disk came later: this one is there already.
        return [
            (producer_id, key)
            for producer_id in self._producers_of(key)
            if self._by_producer[producer_id][key].number < waiting.number
        ]

    def _drop_all(self, found: Sequence[tuple[int, OffsetKey]]) -> tuple[list[StateRecord], Continuation[None]]:
        """Return the tombstones of these, and the continuation of their append; until then their ends wait."""
        for producer_id, _ in found:
            self._hold(producer_id)

        def settle(error: HutongError | None) -> None:
            for producer_id, key in found:
                if error is None:
                    self._drop(producer_id, key)
            for producer_id, _ in found:
                self._release(producer_id)

        return [(_encode_key(producer_id, key), None) for producer_id, key in found], settle

    def _forget(self, found: list[tuple[int, OffsetKey]], then: Continuation[None]) -> None:
        if not found:
            then(None)
            return
        slice_ = found[:_KEYS_PER_APPEND]

        def appended(error: HutongError | None) -> None:
            if error is not None:
                then(error)
                return
            for producer_id, key in slice_:
                self._drop(producer_id, key)
            self._forget(found[_KEYS_PER_APPEND:], then)

        self._state.append_all([(_encode_key(producer_id, key), None) for producer_id, key in slice_], appended)

    def _hold(self, producer_id: int) -> None:
        """Let the producer's ends wait for an append."""
        self._unconfirmed[producer_id] += 1

    def _release(self, producer_id: int) -> None:
        self._unconfirmed[producer_id] -= 1
        if not self._unconfirmed[producer_id]:
            del self._unconfirmed[producer_id]
            self._waits.resume_all(producer_id, None)

    def _arrived(self, producer_id: int, key: OffsetKey) -> None:
        producers = self._arriving[key]
        producers[producer_id] -= 1
        if not producers[producer_id]:
            del producers[producer_id]
        if not producers:
            del self._arriving[key]

    def _put(self, producer_id: int, key: OffsetKey, waiting: _Waiting) -> None:
        self._next_number = max(self._next_number, waiting.number + 1)
        self._by_producer.setdefault(producer_id, {})[key] = waiting
        self._by_group.setdefault(key.group_id, {}).setdefault(key, set()).add(producer_id)

    def _drop(self, producer_id: int, key: OffsetKey) -> None:
        waiting = self._by_producer.get(producer_id, {})
        # Dropped before: by the deletion of its topic or its group.
        if waiting.pop(key, None) is None:
            return
        if not waiting:
            del self._by_producer[producer_id]
        keys = self._by_group[key.group_id]
        keys[key].discard(producer_id)
        if not keys[key]:
            del keys[key]
        if not keys:
            del self._by_group[key.group_id]


def _encode_key(producer_id: int, key: OffsetKey) -> bytes:
    return _KEY.pack(KEY_VERSION, producer_id) + encode_offset_key(key)


def _record_of(producer_id: int, key: OffsetKey, waiting: _Waiting) -> StateRecord:
    value = _NUMBERED_VALUE.pack(_NUMBERED, waiting.number, waiting.producer_epoch) + encode_offset(waiting.committed)
    return _encode_key(producer_id, key), value


def _decode_value(value: bytes) -> tuple[int | None, int, StoredOffset]:
    """The number, the epoch and the offset. A record of before there were numbers has None."""
    if len(value) < _EPOCH.size:
        raise CorruptData("a transactional offset has no epoch")
    (mark,) = _EPOCH.unpack_from(value)
    if mark != _NUMBERED:
        return None, mark, decode_offset(value[_EPOCH.size :])
    if len(value) < _NUMBERED_VALUE.size:
        raise CorruptData("a transactional offset has no number")
    _, number, epoch = _NUMBERED_VALUE.unpack_from(value)
    return number, epoch, decode_offset(value[_NUMBERED_VALUE.size :])
