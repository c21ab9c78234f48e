"""A classic group as a value of the internal topic, in Kafka's layout (GroupMetadataValue 3).

A value of None is a tombstone. Pure.
"""

from typing import Final

from hutong.groups.record_keys import decode_record
from hutong.wire.kafka.schema import array, int32, int64, message, opaque, string
from hutong.wire.kafka.schema import struct as table
from hutong.wire.kafka.version_prefixed import encode

_VERSION: Final = 3


@table
class MemberRecord:
    """One member as stored. `subscription` is its metadata for the chosen protocol."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable="3")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32()
    session_timeout_ms: int = int32()
    subscription: bytes = opaque()
    assignment: bytes = opaque()


@message(versions="3")
class GroupRecord:
    """A finished generation as stored: enough to continue after a restart without a rebalance.

    `since_ms` is the wall time since which the group has been as it is; its coordinator fills it in.
    """

    protocol_type: str = string()
    generation_id: int = int32()
    protocol_name: str | None = string(nullable="3")
    leader_id: str | None = string(nullable="3")
    since_ms: int = int64()
    members: list[MemberRecord] = array(MemberRecord)


def encode_group(record: GroupRecord) -> bytes:
    return encode(record, _VERSION)


def decode_group(data: bytes) -> GroupRecord:
    """Raises CorruptData."""
    return decode_record(GroupRecord, data)
