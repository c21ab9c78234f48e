"""The checkpoint: what the logs were at one position, so that a start need not read all that lies before it.

    header   magic, version, CRC-32C of the rest, clean mark, leader epoch, position, log count
    log      id, start offset, end offset, producer count
    producer id, epoch, batch count, last seen ms; per batch: base sequence, last sequence, base offset

Strategy: one file, replaced atomically. It is only a shortcut: absent or damaged, the journal is read from its start.
The clean mark says that nothing was appended after it.

Pure: bytes and values. Numbers are big-endian.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from hutong.foundation.errors import CorruptData
from hutong.journal.producers import ProducerState, RememberedBatch
from hutong.wire.buffer import Buffer

CHECKPOINT_NAME: Final = "checkpoint"
MAGIC: Final = b"HtCp"
VERSION: Final = 1
_PREFIX: Final = struct.Struct(">4sII")
_BODY: Final = struct.Struct(">?iQI")
_LOG: Final = struct.Struct(">IqqI")
_PRODUCER: Final = struct.Struct(">qhBq")
_BATCH: Final = struct.Struct(">iiq")


@dataclass(slots=True)
class LogState:
    """One log: its offsets and its idempotent producers, longest silent first."""

    start_offset: int = 0
    end_offset: int = 0
    producers: Mapping[int, ProducerState] = field(default_factory=dict)


@dataclass(slots=True)
class Checkpoint:
    """The state of all logs after everything before `position`."""

    position: int
    leader_epoch: int
    is_clean: bool
    logs: dict[int, LogState]


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    pieces = [_BODY.pack(checkpoint.is_clean, checkpoint.leader_epoch, checkpoint.position, len(checkpoint.logs))]
    for partition_id, log in checkpoint.logs.items():
        pieces.append(_LOG.pack(partition_id, log.start_offset, log.end_offset, len(log.producers)))
        for producer_id, state in log.producers.items():
            pieces.append(_PRODUCER.pack(producer_id, state.epoch, len(state.batches), state.seen_at_ms))
            pieces += (_BATCH.pack(*batch) for batch in state.batches)
    body = b"".join(pieces)
    return _PREFIX.pack(MAGIC, VERSION, crc32c(body)) + body


def parse_checkpoint(content: Buffer) -> Checkpoint:
    """Raises CorruptData."""
    if len(content) < _PREFIX.size + _BODY.size:
        raise CorruptData("the checkpoint is shorter than its header")
    magic, version, crc = _PREFIX.unpack_from(content)
    body = memoryview(content)[_PREFIX.size :]
    if magic != MAGIC or version != VERSION or crc32c(body) != crc:
        raise CorruptData("the checkpoint fails its check")
    is_clean, leader_epoch, position, count = _BODY.unpack_from(body)
    checkpoint = Checkpoint(position, leader_epoch, is_clean, {})
    at = _BODY.size
    for _ in range(count):  # lengths are trusted from here on: the CRC vouches for them
        partition_id, start_offset, end_offset, producer_count = _LOG.unpack_from(body, at)
        at += _LOG.size
        producers: dict[int, ProducerState] = {}
        checkpoint.logs[partition_id] = LogState(start_offset, end_offset, producers)
        for _ in range(producer_count):
            producer_id, epoch, batch_count, seen_at_ms = _PRODUCER.unpack_from(body, at)
            at += _PRODUCER.size
            end = at + batch_count * _BATCH.size
            batches = tuple(map(RememberedBatch._make, _BATCH.iter_unpack(body[at:end])))
            producers[producer_id] = ProducerState(epoch, seen_at_ms, batches)
            at = end
    return checkpoint
