"""Finds the record batches in a fetched record set and checks them, before any record is read.

One compiled pass reads each batch's 61-byte header (KIP-98, "RecordBatch v2") into a row of an index; then each batch's
CRC-32C is compared. A set may end in a batch that the broker cut off at the size limit: it is left out. Checks are made
here so that nothing later has to trust a length or a count. Knows nothing of records, compression or Arrow.
"""

from dataclasses import dataclass

import numpy as np

from hutong.foundation.checksum import crc32c
from hutong.foundation.errors import ProtocolError
from hutong.pipelines.native import BytePointer, Bytes, Int64s, bytes_of, compiled, pointer_to, read_int32, read_int64

HEADER_BYTES = 61
LENGTH_COUNTED_FROM = 12
"""The batch length counts the bytes after base offset and length."""
CRC_COVERS_FROM = 21
RECORD_BYTES_MIN = 7
"""Length, attributes, timestamp delta, offset delta, key length, value length, header count: one byte each."""

# Columns of an index row.
POSITION = 0
END = 1
RECORDS_AT = 2
RECORD_COUNT = 3
BASE_OFFSET = 4
LAST_OFFSET = 5
ATTRIBUTES = 6
BASE_TIMESTAMP = 7
MAX_TIMESTAMP = 8
PRODUCER_ID = 9
CRC = 10
COLUMN_COUNT = 11

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

WELL_FORMED = 0
TOO_SHORT = 1
OLD_FORMAT = 2
BAD_OFFSETS = 3
BAD_COUNT = 4
PROBLEMS = {
    TOO_SHORT: "its length is smaller than its header",
    OLD_FORMAT: "its format is not RecordBatch v2 (brokers older than Kafka 0.11 wrote others)",
    BAD_OFFSETS: "its offsets run backwards, or are those of the batch before it",
    BAD_COUNT: "it claims more records than it can hold",
}


@dataclass(frozen=True, slots=True)
class BatchIndex:
    """The whole batches of a record set, in order: one row of `COLUMN_COUNT` numbers each."""

    rows: Int64s

    @property
    def count(self) -> int:
        return int(self.rows.shape[0])

    @property
    def next_offset(self) -> int:
        """The offset after the last whole batch. There must be one."""
        return int(self.rows[-1, LAST_OFFSET]) + 1


def index_batches(records: memoryview) -> BatchIndex:
    """Indexes a record set as it came from the broker.

    Raises ProtocolError for a batch whose header contradicts itself. CRCs are not checked: see `check_crcs`.
    """
    rows = np.empty((len(records) // HEADER_BYTES, COLUMN_COUNT), np.int64)
    count, problem = scan_headers(bytes_of(records), rows)
    if problem:
        raise ProtocolError(f"batch {count} of a fetched record set is malformed: {PROBLEMS[problem]}")
    return BatchIndex(rows[:count])


def check_crcs(records: memoryview, rows: Int64s) -> None:
    """Raises ProtocolError naming the first batch whose bytes do not match their CRC-32C."""
    positions, ends, crcs = (rows[:, column].tolist() for column in (POSITION, END, CRC))
    for position, end, crc in zip(positions, ends, crcs, strict=True):
        if crc32c(records[position + CRC_COVERS_FROM : end]) != crc:
            offset = int.from_bytes(records[position : position + 8], "big", signed=True)
            raise ProtocolError(f"the batch at offset {offset} is corrupt: its CRC does not match its bytes")


@compiled
def scan_headers(data: Bytes, rows: Int64s) -> tuple[int, int]:
    """Fill `rows` from the front; return how many batches are whole, and a problem code."""
    content, size = pointer_to(data), data.shape[0]
    position, next_offset = 0, 0
    for found in range(rows.shape[0]):
        if size - position < HEADER_BYTES:
            return found, WELL_FORMED
        end = position + LENGTH_COUNTED_FROM + read_int32(content, position + 8)
        if content[position + 16] != 2:
            return found, OLD_FORMAT
        if end - position < HEADER_BYTES:
            return found, TOO_SHORT
        if end > size:
            return found, WELL_FORMED
        problem = read_header(content, position, end, rows[found])
        if problem == WELL_FORMED and rows[found, BASE_OFFSET] < next_offset:
            problem = BAD_OFFSETS
        if problem != WELL_FORMED:
            return found, problem
        position, next_offset = end, rows[found, LAST_OFFSET] + 1
    return rows.shape[0], WELL_FORMED


@compiled
def read_header(data: BytePointer, position: int, end: int, row: Int64s) -> int:
    """Fill one row from the whole batch at `position`; return a problem code."""
    row[POSITION] = position
    row[END] = end
    row[RECORDS_AT] = position + HEADER_BYTES
    row[RECORD_COUNT] = read_int32(data, position + 57)
    row[BASE_OFFSET] = read_int64(data, position)
    row[LAST_OFFSET] = row[BASE_OFFSET] + read_int32(data, position + 23)
    row[ATTRIBUTES] = data[position + 22]  # the high byte is unused
    row[BASE_TIMESTAMP] = read_int64(data, position + 27)
    row[MAX_TIMESTAMP] = read_int64(data, position + 35)
    row[PRODUCER_ID] = read_int64(data, position + 43)
    row[CRC] = read_int32(data, position + 17) & 0xFFFF_FFFF
    if row[BASE_OFFSET] < 0 or row[LAST_OFFSET] < row[BASE_OFFSET]:
        return BAD_OFFSETS
    if row[RECORD_COUNT] < 0 or row[RECORD_COUNT] > row[LAST_OFFSET] - row[BASE_OFFSET] + 1:
        return BAD_COUNT
    if row[ATTRIBUTES] & CODEC_MASK == 0 and row[RECORD_COUNT] > (end - row[RECORDS_AT]) // RECORD_BYTES_MIN:
        return BAD_COUNT
    return WELL_FORMED
