"""Offsets that belong to a transaction: they wait on disk for its end, which commits or drops them (KIP-98, KIP-447).

Strategy: each has a record of its own next to the committed ones, so that it survives a restart. The end of a
transaction rewrites a bounded number at a time: what is committed and the tombstone of what waited are one append, so
that after a crash an offset either waits still, for the coordinator to end it again, or is committed. The end first
awaits what is on its way to disk.

As in Kafka the order of the commits counts, not that of the ends: an offset that was committed outside the transaction
while this one waited stays. One whose record could not be stored is not applied, but its tombstone is written, because
the record may turn up later.

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
_KEYS_PER_APPEND: Final = 1_000


@dataclass(slots=True, eq=False)
class _Waiting:
    """One offset that waits for the end of its producer's transaction."""

    committed: StoredOffset
    producer_epoch: int
    number: int  # rises in the order of records
    is_overtaken: bool = False  # another commit came after it
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
        self._unconfirmed: Counter[int | str] = Counter()  # producer, and group → appends that are not durable yet
        self._ending: Counter[int] = Counter()  # producer → ends under way
        self._next_number = 0
        self._closed: HutongError | None = None
        store.on_apply = self._overtake
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
        if len(value) < _EPOCH.size:
            raise CorruptData("a transactional offset has no epoch")
        epoch = _EPOCH.unpack_from(value)[0]
        self._put(producer_id, offset_key, decode_offset(value[_EPOCH.size :]), epoch)

    # ---- changes

    def write(
        self, group_id: str, producer_id: int, producer_epoch: int, changes: Sequence[Change], then: Continuation[None]
    ) -> None:
        """Store what the producer's transaction commits to one group; then call back."""
        entries = [
            (_encode_key(producer_id, key), _encode_value(producer_epoch, committed))
            for key, committed in changes
            if committed is not None
        ]
        self._unconfirmed[producer_id] += 1
        self._unconfirmed[group_id] += 1

        def appended(error: HutongError | None) -> None:
            for key, committed in changes:
                if committed is not None:
                    # After a failed append the record may be on disk all the same: the end has to write its tombstone.
                    self._put(producer_id, key, committed, producer_epoch, is_doubtful=error is not None)
            self._confirmed(producer_id, group_id)
            then(error)

        self._state.append_all(entries, appended)

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

        # Nothing is on its way to disk, so all offsets of the transaction are known.
        if producer_id not in self._unconfirmed:
            self._end(producer_id, ended, is_commit)
            return

        def arrived(error: HutongError | None) -> None:
            if error is not None:
                ended(error)
            else:
                self._end(producer_id, ended, is_commit)

        try:
            self._waits.park(producer_id, arrived)
        except LimitExceeded as error:
            ended(error)

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
        assert all(self._ending.values())

    # ---- inside

    def _is_awaited(self, key: OffsetKey) -> bool:
        keys = self._by_group.get(key.group_id)
        return keys is not None and key in keys

    def _producers_of(self, key: OffsetKey) -> list[int]:
        return list(self._by_group.get(key.group_id, {}).get(key, ()))

    def _end(self, producer_id: int, then: Continuation[None], is_commit: bool) -> None:
        """One append after the other, until nothing waits."""
        slice_ = list(islice(self._by_producer.get(producer_id, {}).items(), _KEYS_PER_APPEND))
        if not slice_:
            then(None)
            return
        entries: list[StateRecord] = []
        for key, waiting in slice_:
            if is_commit and _counts(waiting):
                entries.append((encode_offset_key(key), encode_offset(waiting.committed)))
                # Written again behind the committed offset: replay goes by the order of records.
                entries += self._later_entries(key, waiting)
            entries.append((_encode_key(producer_id, key), None))

        def appended(error: HutongError | None) -> None:
            if error is not None:
                then(error)
                return
            for key, waiting in slice_:
                if is_commit and _counts(waiting):
                    self._commit(key, waiting)
                self._drop(producer_id, key)
            self._end(producer_id, then, is_commit)

        self._state.append_all(entries, appended)

    def _commit(self, key: OffsetKey, waiting: _Waiting) -> None:
        later = [other for _, other in self._later(key, waiting)]
        self._store.apply(key, waiting.committed)
        for other in later:
            # `apply` has just marked them, but they were committed after this one.
            other.is_overtaken = False

    def _later(self, key: OffsetKey, waiting: _Waiting) -> list[tuple[int, _Waiting]]:
        """Later offsets of other transactions for the partition: after a restart, too, they must come later."""
        others = [(producer_id, self._by_producer[producer_id][key]) for producer_id in self._producers_of(key)]
        return [
            (producer_id, other) for producer_id, other in others if other.number > waiting.number and _counts(other)
        ]

    def _later_entries(self, key: OffsetKey, waiting: _Waiting) -> list[StateRecord]:
        return [
            (_encode_key(producer_id, key), _encode_value(other.producer_epoch, other.committed))
            for producer_id, other in self._later(key, waiting)
        ]

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

    def _confirmed(self, producer_id: int, group_id: str) -> None:
        for of_whom in (producer_id, group_id):
            self._unconfirmed[of_whom] -= 1
            if not self._unconfirmed[of_whom]:
                del self._unconfirmed[of_whom]
        if producer_id not in self._unconfirmed:
            self._waits.resume_all(producer_id, None)

    def _put(
        self,
        producer_id: int,
        key: OffsetKey,
        committed: StoredOffset,
        producer_epoch: int,
        *,
        is_doubtful: bool = False,
    ) -> None:
        self._next_number += 1
        waiting = _Waiting(committed, producer_epoch, self._next_number, is_doubtful=is_doubtful)
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

    def _overtake(self, key: OffsetKey) -> None:
        """Record a later commit for the partition: waiting offsets are older."""
        for producer_id in self._producers_of(key):
            self._by_producer[producer_id][key].is_overtaken = True


def _counts(waiting: _Waiting) -> bool:
    return not waiting.is_overtaken and not waiting.is_doubtful


def _encode_key(producer_id: int, key: OffsetKey) -> bytes:
    return _KEY.pack(KEY_VERSION, producer_id) + encode_offset_key(key)


def _encode_value(producer_epoch: int, committed: StoredOffset) -> bytes:
    return _EPOCH.pack(producer_epoch) + encode_offset(committed)
