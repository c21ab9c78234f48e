"""A classic group as a value of the internal topic, in Kafka's layout (GroupMetadataValue 3).

A value of None is a tombstone. Pure.
"""

from dataclasses import dataclass
from typing import Final

from hutong.foundation.errors import CorruptData
from hutong.groups.classic.messages import GroupRecord, MemberRecord
from hutong.groups.record_keys import INT16, INT32, INT64, RecordReader, nullable_string_field, string_field

_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class StoredClassicGroup:
    """A group's last finished generation and since when (wall time) it has been as it is."""

    record: GroupRecord
    since_ms: int


def encode_group(stored: StoredClassicGroup) -> bytes:
    record = stored.record
    parts = [
        INT16.pack(_VERSION),
        string_field(record.protocol_type),
        INT32.pack(record.generation_id),
        nullable_string_field(record.protocol_name),
        nullable_string_field(record.leader_id),
        INT64.pack(stored.since_ms),
        INT32.pack(len(record.members)),
    ]
    for member in record.members:
        parts += (
            string_field(member.member_id),
            nullable_string_field(member.group_instance_id),
            string_field(member.client_id),
            string_field(member.client_host),
            INT32.pack(member.rebalance_timeout_ms),
            INT32.pack(member.session_timeout_ms),
            INT32.pack(len(member.subscription)),
            member.subscription,
            INT32.pack(len(member.assignment)),
            member.assignment,
        )
    return b"".join(parts)


def decode_group(data: bytes) -> StoredClassicGroup:
    """Raises CorruptData."""
    reader = RecordReader(data)
    if (version := reader.int16()) != _VERSION:
        raise CorruptData(f"a stored group has version {version}")
    protocol_type, generation_id = reader.string(), reader.int32()
    protocol_name, leader_id = reader.nullable_string(), reader.nullable_string()
    since_ms = reader.int64()
    members = tuple(_decode_member(reader) for _ in range(reader.int32()))
    return StoredClassicGroup(GroupRecord(protocol_type, generation_id, protocol_name, leader_id, members), since_ms)


def _decode_member(reader: RecordReader) -> MemberRecord:
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
