"""Committed offsets as values of the internal topic, in Kafka's layout (OffsetCommitValue 1 to 3).

A value of None is a tombstone. Pure.
"""

from typing import Final

from hutong.groups.record_keys import decode_record
from hutong.wire.kafka.schema import int32, int64, message, string
from hutong.wire.kafka.version_prefixed import encode

_VERSION: Final = 3
_EXPIRING_VERSION: Final = 1  # the last version with a client's own expiry (OffsetCommit up to version 4)
NO_EXPIRY_MS: Final = -1


@message(versions="1-3")
class StoredOffset:
    """A group's position in one partition. `leader_epoch` is -1 if the client does not know it."""

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string()
    committed_at_ms: int = int64()
    expires_at_ms: int = int64("1", default=NO_EXPIRY_MS)


def encode_offset(stored: StoredOffset) -> bytes:
    return encode(stored, _VERSION if stored.expires_at_ms == NO_EXPIRY_MS else _EXPIRING_VERSION)


def decode_offset(data: bytes) -> StoredOffset:
    """Raises CorruptData."""
    return decode_record(StoredOffset, data)
