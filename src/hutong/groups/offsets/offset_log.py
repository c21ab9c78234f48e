"""Durable changes of committed offsets: write the records, and let the table follow when they are on disk.

Strategy: each request is one append; `OffsetStore.apply` is called in the order of appends, after the disk has them.
Between the two the old value is what a fetch sees, which is right: the new one could still be lost.

Knows nothing of members or generations: the caller has checked the right to commit.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeAlias

from hutong.foundation.errors import HutongError
from hutong.foundation.machine_host import StatePort, StateRecord
from hutong.foundation.waiting.pending import Continuation
from hutong.groups.offsets.records import StoredOffset, encode_offset
from hutong.groups.offsets.store import OffsetStore
from hutong.groups.record_keys import GroupKey, OffsetKey, encode_group_key, encode_offset_key

Change: TypeAlias = tuple[OffsetKey, StoredOffset | None]

_TOMBSTONES_PER_APPEND: Final = 1_000


class WaitingOffsets(Protocol):
    """Offsets that wait for the end of a transaction (`transactional.py`)."""

    def holds(self, group_id: str) -> bool:
        """Return True if any of the group's offsets wait."""
        ...

    def forget(self, keys: Iterable[OffsetKey], then: Continuation[None]) -> None:
        """Drop what waits for these partitions."""
        ...

    def overtake(self, keys: Iterable[OffsetKey]) -> tuple[list[StateRecord], Continuation[None]]:
        """Return the records that drop what waits for these partitions, and the continuation of their append."""
        ...


class OffsetLog:
    """The only writer of offsets."""

    def __init__(self, store: OffsetStore, state: StatePort, waiting: WaitingOffsets | None = None) -> None:
        self._store = store
        self._state = state
        self._waiting = waiting
        self._unconfirmed: Counter[str] = Counter()  # group -> appends that are not durable yet

    def holds(self, group_id: str) -> bool:
        """Return True if the group has offsets, or gets some once an append is durable."""
        is_waiting = self._waiting is not None and self._waiting.holds(group_id)
        return group_id in self._unconfirmed or is_waiting or bool(self._store.of_group(group_id))

    def write(self, group_id: str, changes: Sequence[Change], then: Continuation[None]) -> None:
        """Make these changes of one group durable together, then visible; then call back."""
        records = [_record_of(change) for change in changes]
        if self._waiting is None:
            self._append(group_id, changes, records, then)
            return
        # The commit is later than what waits for the end of a transaction: that goes with the same append.
        overtaken, settle = self._waiting.overtake(key for key, committed in changes if committed is not None)

        def written(error: HutongError | None) -> None:
            settle(error)
            then(error)

        self._append(group_id, changes, records + overtaken, written)

    def forget(self, group_id: str, keys: Iterable[OffsetKey], then: Continuation[None]) -> None:
        """Write tombstones, a bounded number at a time, so that no append is too large for the log.

        What waits for a transaction's end is forgotten with them.
        """
        remaining = list(keys)
        if self._waiting is None:
            self._forget(group_id, remaining, then)
            return

        def dropped(error: HutongError | None) -> None:
            if error is not None:
                then(error)
            else:
                self._forget(group_id, remaining, then)

        self._waiting.forget(remaining, dropped)

    def forget_group(self, group_id: str, then: Continuation[None]) -> None:
        """Write the tombstone of the group's own record."""
        self._append(group_id, (), [(encode_group_key(GroupKey(group_id)), None)], then)

    def _forget(self, group_id: str, remaining: list[OffsetKey], then: Continuation[None]) -> None:
        changes: list[Change] = [(key, None) for key in remaining[:_TOMBSTONES_PER_APPEND]]

        def forgotten(error: HutongError | None) -> None:
            if error is None and len(remaining) > len(changes):
                self._forget(group_id, remaining[len(changes) :], then)
            else:
                then(error)

        self.write(group_id, changes, forgotten)

    def _append(
        self,
        group_id: str,
        changes: Sequence[Change],
        records: Sequence[StateRecord],
        then: Continuation[None],
    ) -> None:
        if not records:
            then(None)
            return
        self._unconfirmed[group_id] += 1

        def appended(error: HutongError | None) -> None:
            self._unconfirmed[group_id] -= 1
            if not self._unconfirmed[group_id]:
                del self._unconfirmed[group_id]
            if error is None:
                for key, committed in changes:
                    self._store.apply(key, committed)
            then(error)

        self._state.append_all(records, appended)


def _record_of(change: Change) -> StateRecord:
    key, committed = change
    return encode_offset_key(key), None if committed is None else encode_offset(committed)
