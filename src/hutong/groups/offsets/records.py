"""Committed offsets as values of the internal topic, in Kafka's layout (OffsetCommitValue 1 and 3).

A value of None is a tombstone. Pure.
"""

import struct
from dataclasses import dataclass
from typing import Final

from hutong.foundation.errors import CorruptData
from hutong.groups.record_keys import INT64, RecordReader, string_field

_VERSION: Final = 3
_EXPIRING_VERSION: Final = 1  # the last version with a client's own expiry (OffsetCommit up to version 4)
NO_EXPIRY_MS: Final = -1

_OFFSET_AND_EPOCH: Final = struct.Struct(">hqi")
_OFFSET: Final = struct.Struct(">hq")


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A group's position in one partition. `leader_epoch` is -1 if the client does not know it."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_at_ms: int
    expires_at_ms: int = NO_EXPIRY_MS


def encode_offset(committed: CommittedOffset) -> bytes:
    metadata = string_field(committed.metadata)
    if committed.expires_at_ms != NO_EXPIRY_MS:
        start = _OFFSET.pack(_EXPIRING_VERSION, committed.offset)
        return start + metadata + INT64.pack(committed.committed_at_ms) + INT64.pack(committed.expires_at_ms)
    start = _OFFSET_AND_EPOCH.pack(_VERSION, committed.offset, committed.leader_epoch)
    return start + metadata + INT64.pack(committed.committed_at_ms)


def decode_offset(data: bytes) -> CommittedOffset:
    """Raises CorruptData."""
    reader = RecordReader(data)
    version, offset = reader.int16(), reader.int64()
    if version == _VERSION:
        return CommittedOffset(offset, reader.int32(), reader.string(), reader.int64())
    if version == _EXPIRING_VERSION:
        return CommittedOffset(offset, -1, reader.string(), reader.int64(), reader.int64())
    raise CorruptData(f"a committed offset has version {version}")
