"""Keys of the internal topic `__consumer_offsets`, and the fields that its older records are made of.

Kafka's layout (OffsetCommitKey 1, GroupMetadataKey 2), so that tools that read that topic read ours.

Pure. Bytes come from our own disk behind a checksum, so undecodable bytes are CorruptData, never a peer's fault.
"""

import struct
from dataclasses import dataclass
from typing import Final

from hutong.foundation.errors import CorruptData

_OFFSET_KEY_VERSION: Final = 1
GROUP_KEY_VERSION: Final = 2

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class OffsetKey:
    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupKey:
    group_id: str


def encode_offset_key(key: OffsetKey) -> bytes:
    return b"".join(
        (
            INT16.pack(_OFFSET_KEY_VERSION),
            string_field(key.group_id),
            string_field(key.topic),
            INT32.pack(key.partition),
        )
    )


def encode_group_key(key: GroupKey) -> bytes:
    return INT16.pack(GROUP_KEY_VERSION) + string_field(key.group_id)


def decode_key(data: bytes) -> OffsetKey | GroupKey:
    """Raises CorruptData."""
    reader = RecordReader(data)
    version = reader.int16()
    if version == GROUP_KEY_VERSION:
        return GroupKey(reader.string())
    if version == _OFFSET_KEY_VERSION:
        return OffsetKey(reader.string(), reader.string(), reader.int32())
    raise CorruptData(f"a record of the groups' topic has key version {version}")


def string_field(value: str) -> bytes:
    data = value.encode()
    return INT16.pack(len(data)) + data


def nullable_string_field(value: str | None) -> bytes:
    return INT16.pack(-1) if value is None else string_field(value)


class RecordReader:
    """Reads fields one after the other; runs past no end."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int16(self) -> int:
        return self._number(INT16)

    def int32(self) -> int:
        return self._number(INT32)

    def int64(self) -> int:
        return self._number(INT64)

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
