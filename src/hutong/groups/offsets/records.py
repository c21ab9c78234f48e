"""What groups write down: keys and values of the internal topic, in Kafka's own layout of `__consumer_offsets`.

Kafka's layout (OffsetCommitKey 1, OffsetCommitValue 1 and 3, GroupMetadataKey 2, GroupMetadataValue 3) so that tools
that read that topic read ours. A value of None is a tombstone.

Pure. Bytes come from our own disk behind a checksum, so what cannot be decoded is CorruptData, never a peer's fault.
"""

import struct
from dataclasses import dataclass
from typing import Final

from hutong.foundation.errors import CorruptData
from hutong.groups.classic.messages import GroupRecord, MemberRecord

_OFFSET_KEY_VERSION: Final = 1
_GROUP_KEY_VERSION: Final = 2
_VALUE_VERSION: Final = 3
_EXPIRING_OFFSET_VERSION: Final = 1  # the last version with a client's own expiry (OffsetCommit up to version 4)
NO_EXPIRY_MS: Final = -1

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_OFFSET_AND_EPOCH: Final = struct.Struct(">hqi")
_OFFSET: Final = struct.Struct(">hq")


@dataclass(frozen=True, slots=True)
class OffsetKey:
    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupKey:
    group_id: str


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """How far a group has read one partition. `leader_epoch` is -1 where the client does not know it."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_at_ms: int
    expires_at_ms: int = NO_EXPIRY_MS


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group's last finished generation and since when (wall time) it has been as it is."""

    record: GroupRecord
    since_ms: int


def encode_offset_key(key: OffsetKey) -> bytes:
    return b"".join(
        (_INT16.pack(_OFFSET_KEY_VERSION), _string(key.group_id), _string(key.topic), _INT32.pack(key.partition))
    )


def encode_group_key(key: GroupKey) -> bytes:
    return _INT16.pack(_GROUP_KEY_VERSION) + _string(key.group_id)


def decode_key(data: bytes) -> OffsetKey | GroupKey:
    """Raises CorruptData."""
    reader = _Reader(data)
    version = reader.int16()
    if version == _GROUP_KEY_VERSION:
        return GroupKey(reader.string())
    if version == _OFFSET_KEY_VERSION:
        return OffsetKey(reader.string(), reader.string(), reader.int32())
    raise CorruptData(f"a record of the groups' topic has key version {version}")


def encode_offset(committed: CommittedOffset) -> bytes:
    metadata = _string(committed.metadata)
    if committed.expires_at_ms != NO_EXPIRY_MS:
        start = _OFFSET.pack(_EXPIRING_OFFSET_VERSION, committed.offset)
        return start + metadata + _INT64.pack(committed.committed_at_ms) + _INT64.pack(committed.expires_at_ms)
    start = _OFFSET_AND_EPOCH.pack(_VALUE_VERSION, committed.offset, committed.leader_epoch)
    return start + metadata + _INT64.pack(committed.committed_at_ms)


def decode_offset(data: bytes) -> CommittedOffset:
    """Raises CorruptData."""
    reader = _Reader(data)
    version, offset = reader.int16(), reader.int64()
    if version == _VALUE_VERSION:
        return CommittedOffset(offset, reader.int32(), reader.string(), reader.int64())
    if version == _EXPIRING_OFFSET_VERSION:
        return CommittedOffset(offset, -1, reader.string(), reader.int64(), reader.int64())
    raise CorruptData(f"a committed offset has version {version}")


def encode_group(stored: StoredGroup) -> bytes:
    record = stored.record
    parts = [
        _INT16.pack(_VALUE_VERSION),
        _string(record.protocol_type),
        _INT32.pack(record.generation_id),
        _nullable_string(record.protocol_name),
        _nullable_string(record.leader_id),
        _INT64.pack(stored.since_ms),
        _INT32.pack(len(record.members)),
    ]
    for member in record.members:
        parts += (
            _string(member.member_id),
            _nullable_string(member.group_instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            _INT32.pack(len(member.subscription)),
            member.subscription,
            _INT32.pack(len(member.assignment)),
            member.assignment,
        )
    return b"".join(parts)


def decode_group(data: bytes) -> StoredGroup:
    """Raises CorruptData."""
    reader = _Reader(data)
    if (version := reader.int16()) != _VALUE_VERSION:
        raise CorruptData(f"a stored group has version {version}")
    protocol_type, generation_id = reader.string(), reader.int32()
    protocol_name, leader_id = reader.nullable_string(), reader.nullable_string()
    since_ms = reader.int64()
    members = tuple(_decode_member(reader) for _ in range(reader.int32()))
    return StoredGroup(GroupRecord(protocol_type, generation_id, protocol_name, leader_id, members), since_ms)


def _decode_member(reader: "_Reader") -> MemberRecord:
    return MemberRecord(
        member_id=reader.string(),
        group_instance_id=reader.nullable_string(),
        client_id=reader.string(),
        client_host=reader.string(),
        rebalance_timeout_ms=reader.int32(),
        session_timeout_ms=reader.int32(),
        subscription=reader.blob(),
        assignment=reader.blob(),
    )


def _string(value: str) -> bytes:
    data = value.encode()
    return _INT16.pack(len(data)) + data


def _nullable_string(value: str | None) -> bytes:
    return _INT16.pack(-1) if value is None else _string(value)


class _Reader:
    """Reads fields one after the other; runs past no end."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def string(self) -> str:
        return self._text(self.int16())

    def nullable_string(self) -> str | None:
        length = self.int16()
        return None if length == -1 else self._text(length)

    def blob(self) -> bytes:
        return self._take(self.int32())

    def _text(self, length: int) -> str:
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise CorruptData(f"a record of the groups' topic has a name that is not text: {error}") from error

    def _number(self, layout: struct.Struct) -> int:
        number: int = layout.unpack(self._take(layout.size))[0]
        return number

    def _take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._data):
            raise CorruptData(f"a record of the groups' topic ends before byte {end}")
        data = self._data[self._position : end]
        self._position = end
        return data
