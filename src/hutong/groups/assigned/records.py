"""Records of groups in which the broker assigns: their keys, and how they add up to a group again.

Strategy: each kind of group has a table of values for the same kinds of records, and key versions of its own. A value
of None is a tombstone.

Pure. Bytes come from our own disk behind a checksum, so what cannot be decoded is CorruptData, never a peer's fault.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from hutong.foundation.errors import CorruptData
from hutong.groups.assigned.messages import OF_EACH_MEMBER, HoldingT, RecordKey, RecordKind, StoredCurrent
from hutong.groups.record_keys import decode_record
from hutong.wire.kafka.schema import int32, message, string
from hutong.wire.kafka.version_prefixed import encode

VALUE_VERSION: Final = 0  # of every value

MemberValueT = TypeVar("MemberValueT")


@message(versions="3-23")
class WholeGroupKey:
    group_id: str = string()


@message(versions="3-23")
class OneMemberKey:
    group_id: str = string()
    member_id: str = string()


@message(versions="0-0", flexible="0+")
class TargetEpochValue:
    assignment_epoch: int = int32()


@dataclass(slots=True)
class StoredGroup(Generic[MemberValueT, HoldingT]):
    """A group as replayed from its records."""

    epoch: int = 0  # 0: there is no record of the group itself
    metadata_hash: int = 0
    assignment_epoch: int = 0
    members: dict[str, MemberValueT] = field(default_factory=dict)
    targets: dict[str, frozenset[HoldingT]] = field(default_factory=dict)
    currents: dict[str, StoredCurrent[HoldingT]] = field(default_factory=dict)


StoredT = TypeVar("StoredT", bound=StoredGroup[Any, Any])


class GroupRecords(Generic[StoredT]):
    """The records of one kind of group."""

    def __init__(self, versions: Mapping[RecordKind, int], stored: type[StoredT]) -> None:
        self.key_versions = frozenset(versions.values())
        self._versions = versions
        # A kind's number is ours, its version is Kafka's.
        self._kinds = {version: kind for kind, version in versions.items()}
        self._stored = stored

    # ---- what each kind of group has of its own

    def value(self, group: Any, kind: RecordKind, member_id: str) -> Any:
        """The value of a record that the group has."""
        raise NotImplementedError

    def apply(self, group: StoredT, kind: RecordKind, member_id: str, value: bytes) -> None:
        """Take over one value."""
        raise NotImplementedError

    # ---- writing

    def encode_key(self, group_id: str, key: RecordKey) -> bytes:
        kind, member_id = key
        named = OneMemberKey(group_id, member_id) if kind in OF_EACH_MEMBER else WholeGroupKey(group_id)
        return encode(named, self._versions[kind])

    def encode_value(self, group: Any, key: RecordKey) -> bytes | None:
        """The record as the group now has it; None if it has it no more."""
        kind, member_id = key
        if group.is_dead or (kind in OF_EACH_MEMBER and member_id not in group.members):
            return None
        value = self.value(group, kind, member_id)
        return None if value is None else encode(value, VALUE_VERSION)

    # ---- reading

    def replay(self, groups: dict[str, StoredT], key: bytes, value: bytes | None) -> None:
        """Apply one record, oldest first. Raises CorruptData."""
        kind = self._kinds.get(int.from_bytes(key[:2], "big"))
        if kind is None:
            raise CorruptData("a record of the groups' topic has a key of no known kind")
        if kind in OF_EACH_MEMBER:
            named = decode_record(OneMemberKey, key)
            group_id, member_id = named.group_id, named.member_id
        else:
            group_id, member_id = decode_record(WholeGroupKey, key).group_id, ""
        if value is None and kind is RecordKind.GROUP:
            groups.pop(group_id, None)
        elif value is None:
            # Tombstones of members may follow that of their group: then there is nothing to forget.
            _forget(groups.get(group_id), kind, member_id)
        else:
            self.apply(groups.setdefault(group_id, self._stored()), kind, member_id, value)


def _forget(group: StoredGroup[Any, Any] | None, kind: RecordKind, member_id: str) -> None:
    if group is None:
        return
    if kind is RecordKind.MEMBER:
        group.members.pop(member_id, None)
    elif kind is RecordKind.TARGET:
        group.targets.pop(member_id, None)
    elif kind is RecordKind.CURRENT:
        group.currents.pop(member_id, None)


def epochs_of(indexes: list[int], epochs: list[int] | None, member_epoch: int) -> Iterable[tuple[int, int]]:
    """Each partition with the epoch in which it was given. Raises CorruptData."""
    # A record without KIP-1251's epochs: the member's own is no older than any of them.
    known = epochs or [member_epoch] * len(indexes)
    if len(known) != len(indexes):
        raise CorruptData("a record of the groups' topic has not an epoch for each partition")
    return zip(indexes, known, strict=True)
