"""The questions of nodes to the owner of share groups' progress, and their answers, as messages between nodes.

    read        a key                        the record, or none
    write       a key, a record, and the version of the record before it
    summaries   a group                      keys with start offsets and the numbers of finished offsets
    replace     keys with offsets, -1 to forget the progress

Pure. What no node sends is a ProtocolError.
"""

import struct
from collections.abc import Mapping
from typing import Final

from hutong.cluster.peers.port import PeerMessage
from hutong.cluster.questions import QuestionCode
from hutong.foundation.errors import CorruptData, ProtocolError
from hutong.groups.share.delivery.progress import ProgressWrite
from hutong.groups.share.records import PartitionKey, ProgressSummary, decode_key, encode_partition_key

READ: Final = "read"
WRITE: Final = "write"
SUMMARIES: Final = "summaries"
REPLACE: Final = "replace"
FORGET: Final = -1
_LENGTH: Final = struct.Struct(">I")
_NUMBERS: Final = struct.Struct(">qq")


def encode_read(key: PartitionKey) -> PeerMessage:
    return _question(READ, encode_partition_key(key))


def decode_read(message: PeerMessage) -> PartitionKey:
    return _as_key(bytes(message.body))


def encode_found(value: bytes | None) -> PeerMessage:
    return PeerMessage(0, {"found": "" if value is None else "1"}, value or b"")


def decode_found(message: PeerMessage) -> bytes | None:
    return bytes(message.body) if message.fields.get("found") else None


def encode_write(write: ProgressWrite) -> PeerMessage:
    key = encode_partition_key(write.key)
    return _question(WRITE, _LENGTH.pack(len(key)) + key + write.value, before=str(write.before))


def decode_write(message: PeerMessage) -> ProgressWrite:
    body = bytes(message.body)
    key, position = _key_at(body, 0)
    try:
        before = int(message.fields.get("before", ""))
    except ValueError:
        raise ProtocolError("progress of a share group without the version before it") from None
    return ProgressWrite(key, before, body[position:])


def encode_summaries_asked(group_id: str) -> PeerMessage:
    return _question(SUMMARIES, group_id.encode())


def encode_summaries(found: Mapping[PartitionKey, ProgressSummary]) -> PeerMessage:
    rows = {key: (summary.start_offset, summary.done_ahead) for key, summary in found.items()}
    return PeerMessage(0, {}, _rows(rows))


def decode_summaries(message: PeerMessage) -> dict[PartitionKey, ProgressSummary]:
    return {key: ProgressSummary(*numbers) for key, numbers in _decoded_rows(bytes(message.body)).items()}


def encode_replace(offsets: Mapping[PartitionKey, int | None]) -> PeerMessage:
    rows = {key: (FORGET if offset is None else offset, 0) for key, offset in offsets.items()}
    return _question(REPLACE, _rows(rows))


def decode_replace(message: PeerMessage) -> dict[PartitionKey, int | None]:
    rows = _decoded_rows(bytes(message.body))
    return {key: None if offset == FORGET else offset for key, (offset, _) in rows.items()}


def _question(asked: str, body: bytes, **fields: str) -> PeerMessage:
    return PeerMessage(QuestionCode.SHARE_PROGRESS, {"asked": asked, **fields}, body)


def _rows(rows: Mapping[PartitionKey, tuple[int, int]]) -> bytes:
    parts: list[bytes] = []
    for key, numbers in rows.items():
        encoded = encode_partition_key(key)
        parts += (_LENGTH.pack(len(encoded)), encoded, _NUMBERS.pack(*numbers))
    return b"".join(parts)


def _decoded_rows(body: bytes) -> dict[PartitionKey, tuple[int, int]]:
    rows: dict[PartitionKey, tuple[int, int]] = {}
    position = 0
    while position < len(body):
        key, position = _key_at(body, position)
        if position + _NUMBERS.size > len(body):
            raise ProtocolError("progress of share groups that is cut off")
        first, second = _NUMBERS.unpack_from(body, position)
        rows[key] = (first, second)
        position += _NUMBERS.size
    return rows


def _key_at(body: bytes, position: int) -> tuple[PartitionKey, int]:
    start = position + _LENGTH.size
    if start > len(body):
        raise ProtocolError("a key of a share group's progress that is cut off")
    end = start + _LENGTH.unpack_from(body, position)[0]
    return _as_key(body[start:end]), end


def _as_key(data: bytes) -> PartitionKey:
    try:
        key = decode_key(data)
    except CorruptData as error:
        raise ProtocolError(str(error)) from None
    if not isinstance(key, PartitionKey):
        raise ProtocolError("a key of a share group's progress that is none")
    return key
