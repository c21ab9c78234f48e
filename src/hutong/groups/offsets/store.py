"""Committed offsets: the position of each group in each partition, and the age of offsets for retention.

Strategy: a table of group → topic → partition, changed by `apply` alone, which is called for each durable record: while
running when the append is confirmed, at start when the topic is replayed. So memory is never ahead of the disk.

Retention is Kafka's (KIP-211): offsets age only while nobody needs them. In a group without members they age from the
moment it became empty, in a group that never had members (its clients assign partitions themselves) from their own
commit, and in a living consumer group only for topics it is no longer subscribed to.

Knows nothing of members' protocols, requests or the topic that it is replayed from.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hutong.groups.offsets.records import NO_EXPIRY_MS, StoredOffset
from hutong.groups.record_keys import OffsetKey


@dataclass(frozen=True, slots=True)
class Usage:
    """A group's use of its offsets, as retention needs it.

    `empty_since_ms` is wall time, None for a group with members or without a history of members.
    `subscribed` is None where every topic counts as in use.
    """

    has_members: bool
    empty_since_ms: int | None = None
    subscribed: frozenset[str] | None = None


class OffsetBounds(Protocol):
    """Bounds of all offsets together: their number, and the bytes of the metadata that clients add."""

    @property
    def offsets_max(self) -> int: ...

    @property
    def offset_notes_bytes_max(self) -> int: ...


class OffsetStore:
    """Every committed offset of this node."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, StoredOffset]]] = {}
        self._count = 0
        self._sizes: dict[str, tuple[int, int]] = {}  # group -> its offsets, and the bytes of its notes
        self.on_size: Callable[[str, int, int], None] = lambda _group_id, _offsets, _notes_bytes: None  # after a change
        self.notes_bytes = 0  # of the metadata of all offsets
        self.is_awaited: Callable[[OffsetKey], bool] = lambda _key: False  # whether a transaction may still commit one

    def __len__(self) -> int:
        return self._count

    def apply(self, key: OffsetKey, committed: StoredOffset | None) -> None:
        """Take over one durable record; None is a tombstone."""
        if committed is None:
            self._forget(key)
            return
        partitions = self._by_group.setdefault(key.group_id, {}).setdefault(key.topic, {})
        before = partitions.get(key.partition)
        more_bytes = len(committed.metadata) - (len(before.metadata) if before is not None else 0)
        partitions[key.partition] = committed
        self._resize(key.group_id, int(before is None), more_bytes)

    def get(self, group_id: str, topic: str, partition: int) -> StoredOffset | None:
        return self._by_group.get(group_id, {}).get(topic, {}).get(partition)

    def has_room(
        self, changes: Sequence[tuple[OffsetKey, StoredOffset | None]], bounds: OffsetBounds, waiting: int = 0
    ) -> bool:
        """Return True if these changes keep within the bounds, with `waiting` offsets in addition.

        Changes that add nothing always pass.
        """
        offsets, notes_bytes = len(changes), sum(len(new.metadata) for _, new in changes if new is not None)
        notes_left = bounds.offset_notes_bytes_max - self.notes_bytes
        if self._count + waiting + offsets <= bounds.offsets_max and notes_bytes <= notes_left:
            return True
        # Only near the bounds is it worth looking up each offset that is replaced.
        for key, _ in changes:
            before = self.get(key.group_id, key.topic, key.partition)
            if before is not None:
                offsets -= 1
                notes_bytes -= len(before.metadata)
        has_place = offsets <= 0 or self._count + waiting + offsets <= bounds.offsets_max
        return has_place and (notes_bytes <= 0 or notes_bytes <= notes_left)

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, StoredOffset]]:
        """Topic → partition → offset; empty for a group that has none."""
        return self._by_group.get(group_id, {})

    def groups(self) -> Iterator[str]:
        """The groups that have at least one offset."""
        return iter(self._by_group)

    def keys_of_group(self, group_id: str) -> list[OffsetKey]:
        return [
            OffsetKey(group_id, topic, partition)
            for topic, partitions in self.of_group(group_id).items()
            for partition in partitions
        ]

    def keys_of_topic(self, topic: str) -> list[OffsetKey]:
        return [
            OffsetKey(group_id, topic, partition)
            for group_id, topics in self._by_group.items()
            for partition in topics.get(topic, ())
        ]

    def expired(self, group_id: str, usage: Usage, now_ms: int, retention_ms: int) -> list[OffsetKey]:
        """The offsets that may be forgotten at `now_ms` (wall time)."""
        old = []
        for topic, partitions in self.of_group(group_id).items():
            # KIP-211: a group with members keeps the offsets of the topics it reads.
            if usage.has_members and (usage.subscribed is None or topic in usage.subscribed):
                continue
            for partition, committed in partitions.items():
                key = OffsetKey(group_id, topic, partition)
                # An offset that a transaction may still replace stays until its end.
                if _expires_at_ms(committed, usage, retention_ms) <= now_ms and not self.is_awaited(key):
                    old.append(key)
        return old

    def added_by(self, changes: Sequence[tuple[OffsetKey, StoredOffset | None]]) -> tuple[int, int]:
        """The offsets and the bytes of notes that these changes would add; no less than 0."""
        offsets = notes_bytes = 0
        for key, new in changes:
            before = self.get(key.group_id, key.topic, key.partition)
            offsets += before is None
            notes_bytes += len(new.metadata) if new is not None else 0
            notes_bytes -= len(before.metadata) if before is not None else 0
        return offsets, max(0, notes_bytes)

    def size_of(self, group_id: str) -> tuple[int, int]:
        """The group's offsets, and the bytes of its notes."""
        return self._sizes.get(group_id, (0, 0))

    def _resize(self, group_id: str, more: int, more_bytes: int) -> None:
        if not more and not more_bytes:
            return
        self._count += more
        self.notes_bytes += more_bytes
        offsets, notes_bytes = self.size_of(group_id)
        offsets, notes_bytes = offsets + more, notes_bytes + more_bytes
        if offsets:
            self._sizes[group_id] = offsets, notes_bytes
        else:
            del self._sizes[group_id]
        self.on_size(group_id, offsets, notes_bytes)

    def _forget(self, key: OffsetKey) -> None:
        topics = self._by_group.get(key.group_id, {})
        partitions = topics.get(key.topic, {})
        gone = partitions.pop(key.partition, None)
        if gone is None:
            return
        self._resize(key.group_id, -1, -len(gone.metadata))
        if not partitions:
            del topics[key.topic]
        if not topics:
            del self._by_group[key.group_id]


def _expires_at_ms(committed: StoredOffset, usage: Usage, retention_ms: int) -> int:
    if committed.expires_at_ms != NO_EXPIRY_MS:
        return committed.expires_at_ms
    aging_since_ms = committed.committed_at_ms
    if usage.empty_since_ms is not None:
        aging_since_ms = max(aging_since_ms, usage.empty_since_ms)
    return aging_since_ms + retention_ms
