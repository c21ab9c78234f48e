"""The clean offset of each compacted log, kept over a restart.

    magic, CRC-32C of the rest; per log: id, offset before which each key has one record

Strategy: one small file, replaced atomically at the end of a cleaning, as Kafka's cleaner-offset-checkpoint. It is only
a hint: absent or damaged, everything counts as dirty and is gone through once more.

Pure: bytes and values. Numbers are big-endian.
"""

import struct
from collections.abc import Mapping
from typing import Final

from hutong.foundation.checksum import crc32c
from hutong.foundation.errors import CorruptData
from hutong.wire.buffer import Buffer

CLEAN_OFFSETS_NAME: Final = "cleaned"
MAGIC: Final = b"HtCl"
_PREFIX: Final = struct.Struct(">4sI")
_LOG: Final = struct.Struct(">Iq")


def encode_clean_offsets(offsets: Mapping[int, int]) -> bytes:
    body = b"".join(_LOG.pack(partition_id, offset) for partition_id, offset in offsets.items())
    return _PREFIX.pack(MAGIC, crc32c(body)) + body


def parse_clean_offsets(content: Buffer) -> dict[int, int]:
    """Raises CorruptData."""
    body = memoryview(content)[_PREFIX.size :]
    if len(content) < _PREFIX.size or len(body) % _LOG.size:
        raise CorruptData("the file of clean offsets is cut off")
    magic, crc = _PREFIX.unpack_from(content)
    if magic != MAGIC or crc != crc32c(body):
        raise CorruptData("the file of clean offsets fails its check")
    return dict(_LOG.iter_unpack(body))
