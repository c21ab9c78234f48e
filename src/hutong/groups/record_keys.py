"""Keys of the internal topic `__consumer_offsets`, and the decoding of its records.

Kafka's layout (OffsetCommitKey 1, GroupMetadataKey 2), so that tools that read that topic read ours.

Pure. Bytes come from our own disk behind a checksum, so undecodable bytes are CorruptData, never a peer's fault.
"""

import struct
from dataclasses import dataclass
from typing import Final, TypeVar

from hutong.foundation.errors import CorruptData, ProtocolError
from hutong.wire.kafka.schema import int32, message, string
from hutong.wire.kafka.version_prefixed import VERSION, decode, encode

_OFFSET_KEY_VERSION: Final = 1
GROUP_KEY_VERSION: Final = 2

_VERSION_AND_LENGTH: Final = struct.Struct(">hh")
_LENGTH: Final = struct.Struct(">h")
_PARTITION: Final = struct.Struct(">i")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OffsetKey:
    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupKey:
    group_id: str


@message(versions="1")
class OffsetCommitKey:
    group_id: str = string()
    topic: str = string()
    partition: int = int32()


@message(versions="2")
class GroupMetadataKey:
    group_id: str = string()


def encode_offset_key(key: OffsetKey) -> bytes:
    # By hand: a commit writes one for each partition, and the table's encoder takes twice as long.
    group_id, topic = key.group_id.encode(), key.topic.encode()
    return b"".join(
        (
            _VERSION_AND_LENGTH.pack(_OFFSET_KEY_VERSION, len(group_id)),
            group_id,
            _LENGTH.pack(len(topic)),
            topic,
            _PARTITION.pack(key.partition),
        )
    )


def encode_group_key(key: GroupKey) -> bytes:
    return encode(GroupMetadataKey(key.group_id), GROUP_KEY_VERSION)


def decode_key(data: bytes) -> OffsetKey | GroupKey:
    """Raises CorruptData."""
    if data.startswith(VERSION.pack(GROUP_KEY_VERSION)):
        return GroupKey(decode_record(GroupMetadataKey, data).group_id)
    key = decode_record(OffsetCommitKey, data)
    return OffsetKey(key.group_id, key.topic, key.partition)


def decode_record(table: type[T], data: bytes) -> T:
    """Raises CorruptData."""
    try:
        return decode(table, data)
    except ProtocolError as error:
        raise CorruptData(f"a record of the groups' topic: {error}") from error
