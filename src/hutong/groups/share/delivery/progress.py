"""The progress of share groups in partitions, as the owner of their log keeps it: compared, then set.

Strategy: each record of progress has a version, a number that no other has. Who reads progress and goes on from it
names the version that it has read with its next write. A write from another version is refused, so of two nodes that
believe to lead a partition one finds out before it answers anything (Kafka's fencing by epochs of state and leader, in
one number). A write may be repeated: the one that is there already is accepted. What an operator sets needs no version.

A node alone writes to itself. Among several nodes it is on the leader of the share groups' log, and others ask it.

Knows nothing of what the runs of a record mean.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.machine_host import StatePort, StateRecord
from hutong.foundation.waiting.pending import Continuation
from hutong.groups.share.records import (
    PartitionKey,
    ProgressSummary,
    decode_progress,
    encode_partition_key,
    encode_progress,
    summary_of,
    version_of,
)
from hutong.wire.kafka.error_codes import ErrorCode

CHANGES_PER_APPEND: Final = 1_000
_FENCED: Final = Refused(ErrorCode.FENCED_STATE_EPOCH, "Another node, or an operator, has changed the progress.")


class ShareStatePort(StatePort, Protocol):
    """The internal compacted topic of share groups, with the latest record of each key in memory."""

    @property
    def live(self) -> Mapping[bytes, bytes]:
        """The durable records, by key."""
        ...


@dataclass(frozen=True, slots=True)
class ProgressWrite:
    """A record of progress that replaces the one of version `before`. `value` has its own version."""

    key: PartitionKey
    before: int
    value: bytes


class ProgressPort(Protocol):
    """The owner of all progress, wherever it is. A `then` is called exactly once, on the loop.

    `is_shared` is true where other nodes change progress, too.
    """

    @property
    def is_shared(self) -> bool: ...

    def read(self, key: PartitionKey, then: Continuation[bytes | None]) -> None:
        """The newest record of a group in a partition, None where it has none."""
        ...

    def write(self, write: ProgressWrite, then: Continuation[None]) -> None:
        """Set a record; `then` gets Refused(FENCED_STATE_EPOCH) where the record before it is another one."""
        ...

    def summaries(self, group_id: str, then: Continuation[Mapping[PartitionKey, ProgressSummary]]) -> None:
        """All partitions in which the group has progress."""
        ...

    def replace(self, offsets: Mapping[PartitionKey, int | None], then: Continuation[None]) -> None:
        """Let groups begin at these offsets, or forget their progress (None). No version is compared."""
        ...


class ProgressVersions:
    """Numbers for versions. They begin anywhere, so that no two makers have one in common."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._next = int.from_bytes(random_bytes(7), "big") + 1

    def take(self) -> int:
        self._next += 1
        return self._next


class KeptProgress:
    """Implements `ProgressPort` on the log's owner. `replay` every record first."""

    is_shared = False

    def __init__(self, state: ShareStatePort, versions: ProgressVersions) -> None:
        self._state = state
        self._versions = versions
        self._stored: dict[str, dict[PartitionKey, None]] = {}  # group -> what has progress on disk
        self._intended: dict[PartitionKey, int] = {}  # the version on its way that is the newest of its key
        self._on_their_way: Counter[PartitionKey] = Counter()

    def replay(self, key: PartitionKey, value: bytes | None) -> None:
        """Apply one record of the state topic. Raises CorruptData."""
        if value is not None:
            decode_progress(value)  # raises at the start what is corrupt
        self._note(key, value)

    # ---- looking

    def groups(self) -> Iterable[str]:
        """The groups that have progress on disk."""
        return list(self._stored)

    def keys_of(self, group_id: str) -> list[PartitionKey]:
        """The partitions in which the group has progress."""
        return list(self._stored.get(group_id, ()))

    def summary(self, key: PartitionKey) -> ProgressSummary | None:
        """The group's progress in short."""
        stored = self._state.live.get(encode_partition_key(key))
        return summary_of(stored) if stored is not None else None

    # ---- the port

    def read(self, key: PartitionKey, then: Continuation[bytes | None]) -> None:
        then(self._state.live.get(encode_partition_key(key)))

    def summaries(self, group_id: str, then: Continuation[Mapping[PartitionKey, ProgressSummary]]) -> None:
        found = ((key, self.summary(key)) for key in self.keys_of(group_id))
        then({key: summary for key, summary in found if summary is not None})

    def write(self, write: ProgressWrite, then: Continuation[None]) -> None:
        # Compared with what is on its way: two writes from the same version must not both be accepted.
        present = self._intended.get(write.key)
        if present is None:
            present = version_of(self._state.live.get(encode_partition_key(write.key)))
        if present not in (write.before, version_of(write.value)):
            then(_FENCED)
        else:
            self._append({write.key: write.value}, then)

    def replace(self, offsets: Mapping[PartitionKey, int | None], then: Continuation[None]) -> None:
        """A bounded number of partitions at a time: one append of all might be too large for a batch."""
        keys = list(offsets)
        if not keys:
            then(None)
            return
        now = {key: self._begun_at(offsets[key]) for key in keys[:CHANGES_PER_APPEND]}
        later = {key: offsets[key] for key in keys[CHANGES_PER_APPEND:]}

        def done(error: HutongError | None) -> None:
            # An error ends it: what is left keeps its progress, and the caller may try again.
            if error is None and later:
                self.replace(later, then)
            else:
                then(error)

        self._append(now, done)

    def forget_topic(self, topic_id: bytes) -> None:
        """A topic was deleted."""
        keys = {key for keys in self._stored.values() for key in keys if key.topic_id == topic_id}
        # A record that is on its way would be there afterwards.
        keys |= {key for key in self._on_their_way if key.topic_id == topic_id}
        self.replace(dict.fromkeys(sorted(keys, key=lambda key: (key.group_id, key.partition))), _ignore)

    # ---- inside

    def _begun_at(self, offset: int | None) -> bytes | None:
        return None if offset is None else encode_progress(offset, (), self._versions.take())

    def _append(self, values: Mapping[PartitionKey, bytes | None], then: Continuation[None]) -> None:
        for key, value in values.items():
            self._intended[key] = version_of(value)
            self._on_their_way[key] += 1
        records: Sequence[StateRecord] = [(encode_partition_key(key), value) for key, value in values.items()]
        self._state.append_all(records, partial(self._appended, values, then))

    def _appended(
        self, values: Mapping[PartitionKey, bytes | None], then: Continuation[None], error: HutongError | None
    ) -> None:
        for key, value in values.items():
            self._on_their_way[key] -= 1
            if not self._on_their_way[key]:
                del self._on_their_way[key]
                self._intended.pop(key, None)
            if error is None:
                self._note(key, value)
        then(error)

    def _note(self, key: PartitionKey, value: bytes | None) -> None:
        if value is not None:
            self._stored.setdefault(key.group_id, {})[key] = None
            return
        keys = self._stored.get(key.group_id, {})
        keys.pop(key, None)
        if not keys:
            self._stored.pop(key.group_id, None)


def _ignore(_error: HutongError | None) -> None:
    """Ignore the outcome: a topic that is gone is asked for by nobody."""
