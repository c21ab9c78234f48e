"""The checkpoint: the state of the logs at one position, so that a start need not read everything before it.

    header   magic, version, CRC-32C of the rest, clean mark, leader epoch, position, log count
    epochs   count; of each epoch, position of its first chunk, node that wrote it (-1: unknown)
    log      id, start offset, end offset, producer count, open transaction count, aborted transaction count
    producer id, epoch, batch count, last seen ms, coordinator epoch, sequences stored without a gap
    batch    base sequence, last sequence, base offset
    open     producer id, first offset
    aborted  producer id, first offset, last offset, stable offset

Version 1 knew no transactions: its logs have no such counts, its producers no coordinator epoch. Version 2 had no list
of epochs, and version 3 did not count sequences.

Strategy: one file, replaced atomically. It is only a shortcut: absent or damaged, the journal is read from its start.
The clean mark says that nothing was appended after it.

Pure: bytes and values. Numbers are big-endian.
"""

import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hutong.foundation.checksum import crc32c
from hutong.foundation.errors import CorruptData
from hutong.journal.append.leader_epochs import EpochStart
from hutong.journal.append.producers import NO_COORDINATOR_EPOCH, ProducerState, RememberedBatch
from hutong.journal.append.transactions import ROW_BYTES, ROW_NUMBERS
from hutong.wire.buffer import Buffer

CHECKPOINT_NAME: Final = "checkpoint"
MAGIC: Final = b"HtCp"
VERSION: Final = 4
_VERSION_WITHOUT_SEQUENCES: Final = 3
_VERSION_WITHOUT_EPOCHS: Final = 2
_VERSION_WITHOUT_TRANSACTIONS: Final = 1
_PREFIX: Final = struct.Struct(">4sII")
_BODY: Final = struct.Struct(">?iQI")
_EPOCHS: Final = struct.Struct(">I")
_EPOCH: Final = struct.Struct(">iQi")
_LOG: Final = struct.Struct(">IqqI")
_COUNTS: Final = struct.Struct(">II")
_PRODUCER: Final = struct.Struct(">qhBq")
_COORDINATOR: Final = struct.Struct(">i")
_SEQUENCES: Final = struct.Struct(">I")
_OPEN: Final = struct.Struct(">qq")
_BATCH: Final = struct.Struct(">iiq")


@dataclass(slots=True)
class LogState:
    """One log: its offsets, its idempotent producers, longest silent first, and its transactions, oldest first.

    Of aborted ones there are four numbers each, as their index has them.
    """

    start_offset: int = 0
    end_offset: int = 0
    producers: Mapping[int, ProducerState] = field(default_factory=dict)
    open: Sequence[tuple[int, int]] = ()
    aborted: "array[int]" = field(default_factory=lambda: array("q"))


@dataclass(slots=True)
class Checkpoint:
    """The state of all logs after everything before `position`."""

    position: int
    leader_epoch: int
    is_clean: bool
    logs: dict[int, LogState]
    epochs: Sequence[EpochStart] = ()


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    pieces = [_BODY.pack(checkpoint.is_clean, checkpoint.leader_epoch, checkpoint.position, len(checkpoint.logs))]
    pieces.append(_EPOCHS.pack(len(checkpoint.epochs)))
    pieces += (_EPOCH.pack(*start) for start in checkpoint.epochs)
    for partition_id, log in checkpoint.logs.items():
        pieces.append(_LOG.pack(partition_id, log.start_offset, log.end_offset, len(log.producers)))
        pieces.append(_COUNTS.pack(len(log.open), len(log.aborted) // ROW_NUMBERS))
        for producer_id, state in log.producers.items():
            pieces.append(_PRODUCER.pack(producer_id, state.epoch, len(state.batches), state.seen_at_ms))
            pieces.append(_COORDINATOR.pack(state.coordinator_epoch))
            pieces.append(_SEQUENCES.pack(state.sequences_stored))
            pieces += (_BATCH.pack(*batch) for batch in state.batches)
        pieces += (_OPEN.pack(*entry) for entry in log.open)
        pieces.append(_big_endian(log.aborted).tobytes())
    body = b"".join(pieces)
    return _PREFIX.pack(MAGIC, VERSION, crc32c(body)) + body


def parse_checkpoint(content: Buffer) -> Checkpoint:
    """Raises CorruptData."""
    if len(content) < _PREFIX.size + _BODY.size:
        raise CorruptData("the checkpoint is shorter than its header")
    magic, version, crc = _PREFIX.unpack_from(content)
    body = memoryview(content)[_PREFIX.size :]
    if magic != MAGIC or not _VERSION_WITHOUT_TRANSACTIONS <= version <= VERSION or crc32c(body) != crc:
        raise CorruptData("the checkpoint fails its check")
    is_clean, leader_epoch, position, count = _BODY.unpack_from(body)
    checkpoint = Checkpoint(position, leader_epoch, is_clean, {})
    at = _BODY.size
    try:
        if version > _VERSION_WITHOUT_EPOCHS:
            at, checkpoint.epochs = _parse_epochs(body, at)
        for _ in range(count):
            at = _parse_log(body, at, checkpoint.logs, version)
    except (struct.error, ValueError) as error:  # a writer was wrong: by the CRC this is what it wrote
        raise CorruptData(f"the checkpoint cannot be read: {error}") from error
    return checkpoint


def _parse_epochs(body: memoryview, at: int) -> tuple[int, list[EpochStart]]:
    """The end of the list that begins `at`, and its content."""
    (count,) = _EPOCHS.unpack_from(body, at)
    at += _EPOCHS.size
    # A count of more than is there allocates nothing: slices end with the body, and the rest is no whole number.
    end = at + count * _EPOCH.size
    return end, [EpochStart(*numbers) for numbers in _EPOCH.iter_unpack(body[at:end])]


def _parse_log(body: memoryview, at: int, logs: dict[int, LogState], version: int) -> int:
    """Parse the log that begins `at`; returns its end."""
    has_transactions = version > _VERSION_WITHOUT_TRANSACTIONS
    partition_id, start_offset, end_offset, producer_count = _LOG.unpack_from(body, at)
    at += _LOG.size
    open_count = aborted_count = 0
    if has_transactions:
        open_count, aborted_count = _COUNTS.unpack_from(body, at)
        at += _COUNTS.size
    producers: dict[int, ProducerState] = {}
    coordinator_epoch, sequences_stored = NO_COORDINATOR_EPOCH, 0
    for _ in range(producer_count):
        producer_id, epoch, batch_count, seen_at_ms = _PRODUCER.unpack_from(body, at)
        at += _PRODUCER.size
        if has_transactions:
            (coordinator_epoch,) = _COORDINATOR.unpack_from(body, at)
            at += _COORDINATOR.size
        if version > _VERSION_WITHOUT_SEQUENCES:
            (sequences_stored,) = _SEQUENCES.unpack_from(body, at)
            at += _SEQUENCES.size
        end = at + batch_count * _BATCH.size
        batches = tuple(map(RememberedBatch._make, _BATCH.iter_unpack(body[at:end])))
        producers[producer_id] = ProducerState(epoch, seen_at_ms, batches, coordinator_epoch, sequences_stored)
        at = end
    end = at + open_count * _OPEN.size
    opened = [(producer_id, offset) for producer_id, offset in _OPEN.iter_unpack(body[at:end])]
    at, end = end, end + aborted_count * ROW_BYTES
    aborted = _big_endian(array("q", bytes(body[at:end])))
    logs[partition_id] = LogState(start_offset, end_offset, producers, opened, aborted)
    return end


def _big_endian(numbers: "array[int]") -> "array[int]":
    """The numbers in the byte order of the file, and back."""
    if sys.byteorder == "little":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
