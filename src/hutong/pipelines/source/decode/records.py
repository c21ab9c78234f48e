"""The fused pass: the records of a batch go straight into the buffers of Arrow columns, each byte copied once.

Reading the fields, applying the offset window and filling the columns is one compiled loop, because every further pass
over the bytes costs as much as this one. Nothing is trusted: a record must lie inside its batch, a field inside its
record, a value inside its column's buffer; the first that does not ends the pass with a problem code.

Knows nothing of pyarrow: the buffers arrive as NumPy arrays (see `columns`) and are used through pointers.
"""

from typing import NamedTuple

import numpy as np

from hutong.pipelines.native import (
    BytePointer,
    Bytes,
    Int32s,
    Int64s,
    compiled,
    copy_bytes,
    inlined,
    pointer_to,
    read_varint,
    read_varlong,
)
from hutong.pipelines.source.decode.index import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    END,
    LAST_OFFSET,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP,
    RECORD_COUNT,
    RECORDS_AT,
    WELL_FORMED,
)

BAD_RECORD = 1
BAD_FIELD = 2
BAD_OFFSET = 3
BAD_HEADERS = 4
TRAILING_BYTES = 5
BUFFER_FULL = 6
PROBLEMS = {
    BAD_RECORD: "a record's length is malformed or reaches over the end of the batch",
    BAD_FIELD: "a field is malformed or reaches over the end of its record",
    BAD_OFFSET: "the offsets of its records do not rise, or leave the batch",
    BAD_HEADERS: "a record's headers are malformed",
    TRAILING_BYTES: "there are bytes after the last record",
    BUFFER_FULL: "it holds more than its header and size allow",
}

# The slots of the cursor: how far the columns are filled.
ROW = 0
KEY_BYTES = 1
VALUE_BYTES = 2
HEADER = 3
HEADER_KEY_BYTES = 4
HEADER_VALUE_BYTES = 5
ODD_HEADER_KEYS = 6
"""Not 0 when a header's key is not plain ASCII, so that it may not be text at all."""
KEY_NULLS = 7
VALUE_NULLS = 8
CURSOR_SLOTS = 9

MICROSECONDS = 1000
TIMESTAMP_MS_MAX = (2**63 - 1) // MICROSECONDS
"""Spark's timestamps are microseconds in 64 bits; what does not fit is held at the ends of their range."""


class BinaryColumn(NamedTuple):
    """An Arrow binary column: row `r` is `content[ends[r]:ends[r + 1]]`, null where bit `r` of `valid` is cleared.

    `valid` starts with all bits set and `ends` with a 0. Arrays outside the pass, pointers inside.
    """

    ends: Int32s
    content: Bytes
    valid: Bytes
    capacity: int
    """Length of `content`."""


class HeaderColumn(NamedTuple):
    """An Arrow list column of (key, value) pairs: `ends` and `valid` are per row."""

    ends: Int32s
    valid: Bytes
    keys: BinaryColumn
    values: BinaryColumn
    capacity: int
    """The number of pairs that fit."""


class RecordColumns(NamedTuple):
    """All columns that differ from record to record."""

    offsets: Int64s
    timestamps_us: Int64s
    timestamp_types: Int32s
    keys: BinaryColumn
    values: BinaryColumn
    headers: HeaderColumn
    capacity: int
    """The number of rows that fit."""


class RecordWindow(NamedTuple):
    """The wanted offsets (`first <= offset < end`) and columns."""

    first: int
    end: int
    with_key: bool
    with_value: bool
    with_headers: bool


class RecordFields(NamedTuple):
    """The end of a record and its fields; sizes are negative for null. With a problem no other field is valid."""

    problem: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key_at: int
    key_size: int
    value_at: int
    value_size: int
    headers_at: int


@compiled
def decode_batches(
    data: Bytes, rows: Int64s, window: RecordWindow, columns: RecordColumns, cursor: Int64s
) -> tuple[int, int]:
    """Append the records of all batches in `rows` (index rows into `data`, uncompressed) at `cursor`.

    Returns a problem code and the number of the batch it was met in.
    """
    content = pointer_to(data)
    pointers = point_at(columns)
    for index in range(rows.shape[0]):
        problem = decode_batch(content, rows[index], window, pointers, cursor)
        if problem != WELL_FORMED:
            return problem, index
    return WELL_FORMED, 0


@compiled
def decode_batch(data: BytePointer, batch: Int64s, window: RecordWindow, columns: RecordColumns, cursor: Int64s) -> int:
    """Append one batch's records at `cursor`; return a problem code."""
    first, window_end, with_key, with_value, with_headers = window
    base_offset, last_delta, batch_end = batch[BASE_OFFSET], batch[LAST_OFFSET] - batch[BASE_OFFSET], batch[END]
    # Held in locals because, for all the compiler knows, writing a value's bytes could change the cursor.
    row, key_bytes, value_bytes = cursor[ROW], cursor[KEY_BYTES], cursor[VALUE_BYTES]
    position, next_delta = batch[RECORDS_AT], 0
    for _ in range(batch[RECORD_COUNT]):
        record = read_record(data, position, batch_end, next_delta, last_delta)
        if record.problem != WELL_FORMED:
            return record.problem
        position, next_delta = record.end, record.offset_delta + 1
        offset = base_offset + record.offset_delta
        # A fetch returns whole batches, which may begin before the wanted offset.
        if offset < first or offset >= window_end:
            continue
        # Checked although the arena was sized by the headers: compiled code writes without bounds.
        if row >= columns.capacity:
            return BUFFER_FULL
        columns.offsets[row] = offset
        columns.timestamps_us[row], columns.timestamp_types[row] = time_of(batch, record.timestamp_delta)
        if with_key:
            cursor[KEY_NULLS] += record.key_size < 0
            key_bytes = append_bytes(data, record.key_at, record.key_size, columns.keys, row, key_bytes)
        if with_value:
            cursor[VALUE_NULLS] += record.value_size < 0
            value_bytes = append_bytes(data, record.value_at, record.value_size, columns.values, row, value_bytes)
        if with_headers:
            problem = append_headers(data, record.headers_at, position, columns.headers, row, cursor)
            if problem != WELL_FORMED:
                return problem
        row += 1
    if key_bytes < 0 or value_bytes < 0:
        return BUFFER_FULL
    cursor[ROW], cursor[KEY_BYTES], cursor[VALUE_BYTES] = row, key_bytes, value_bytes
    return WELL_FORMED if position == batch_end else TRAILING_BYTES


@inlined
def read_record(data: BytePointer, position: int, batch_end: int, next_delta: int, last_delta: int) -> RecordFields:
    """Read the fields of the record at `position`; all of them are within the record, and the record within the batch.

    Offsets must rise from record to record, as a repeated one would be read twice. Compaction may remove some.
    """
    size, body = read_varint(data, position, batch_end)
    # A negative size would step back into bytes that were read already.
    if body < 0 or size < 0 or size > batch_end - body:
        return RecordFields(BAD_RECORD, 0, 0, 0, 0, 0, 0, 0, 0)
    end = body + size
    timestamp_delta, at = read_varlong(data, body + 1, end)  # one byte of attributes, unused, comes before
    offset_delta, at = read_varint(data, at, end)
    key_size, key_at = read_varint(data, at, end)
    if key_at < 0 or key_size > end - key_at:
        return RecordFields(BAD_FIELD, 0, 0, 0, 0, 0, 0, 0, 0)
    # A delta beyond the header's last offset would be read again with the next batch.
    if offset_delta < next_delta or offset_delta > last_delta:
        return RecordFields(BAD_OFFSET, 0, 0, 0, 0, 0, 0, 0, 0)
    value_size, value_at = read_varint(data, key_at + max(key_size, 0), end)
    if value_at < 0 or value_size > end - value_at:
        return RecordFields(BAD_FIELD, 0, 0, 0, 0, 0, 0, 0, 0)
    headers_at = value_at + max(value_size, 0)
    return RecordFields(
        WELL_FORMED, end, timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers_at
    )


@compiled
def append_headers(data: BytePointer, position: int, end: int, headers: HeaderColumn, row: int, cursor: Int64s) -> int:
    """Append a record's headers, whose bytes are exactly `position` to `end`; return a problem code.

    A record without headers gets a null, as Spark's own Kafka source has it.
    """
    count, at = read_varint(data, position, end)
    # A negative count would skip the loop and leave the bytes unread.
    if at < 0 or count < 0:
        return BAD_HEADERS
    for _ in range(count):
        key_size, key_at = read_varint(data, at, end)
        if key_at < 0 or key_size < 0 or key_size > end - key_at:
            return BAD_HEADERS
        value_size, value_at = read_varint(data, key_at + key_size, end)
        if value_at < 0 or value_size > end - value_at:
            return BAD_HEADERS
        slot = cursor[HEADER]
        # Each header takes two bytes at least, so only a forged batch gets here.
        if slot >= headers.capacity:
            return BUFFER_FULL
        key_bytes = append_bytes(data, key_at, key_size, headers.keys, slot, cursor[HEADER_KEY_BYTES])
        value_bytes = append_bytes(data, value_at, value_size, headers.values, slot, cursor[HEADER_VALUE_BYTES])
        if key_bytes < 0 or value_bytes < 0:
            return BUFFER_FULL
        # ASCII needs no check as UTF-8; any other byte leads to the slow path in `columns`.
        for index in range(key_size):
            cursor[ODD_HEADER_KEYS] |= data[key_at + index] & 0x80
        cursor[HEADER], cursor[HEADER_KEY_BYTES], cursor[HEADER_VALUE_BYTES] = slot + 1, key_bytes, value_bytes
        at = value_at + max(value_size, 0)
    # Bytes after the last header would be lost without a word.
    if at != end:
        return BAD_HEADERS
    headers.ends[row + 1] = cursor[HEADER]
    # Bit `row` of the validity bitmap: Arrow counts bits from the lowest.
    if count == 0:
        headers.valid[row >> 3] &= np.uint8(0xFF ^ (1 << (row & 7)))
    return WELL_FORMED


@inlined
def append_bytes(data: BytePointer, position: int, size: int, column: BinaryColumn, row: int, filled: int) -> int:
    """Set a row to `size` bytes of `data`, or to null when `size` is negative.

    `filled` is how many bytes the column holds. Returns how many it holds then, or -1 when its buffer is too small.
    """
    if size < 0:
        column.valid[row >> 3] &= np.uint8(0xFF ^ (1 << (row & 7)))
        size = 0
    # -1 from the row before is passed on, so that the caller tests once after the loop.
    if filled < 0 or size > column.capacity - filled:
        return -1
    copy_bytes(column.content, filled, data, position, size)
    column.ends[row + 1] = filled + size
    return filled + size


@inlined
def time_of(batch: Int64s, timestamp_delta: int) -> tuple[int, int]:
    """A record's time in microseconds and its type as Kafka numbers it: 0 set by the producer, 1 by the broker."""
    # With LogAppendTime the batch's maximum is the time of all its records.
    if batch[ATTRIBUTES] & LOG_APPEND_TIME:
        return to_microseconds(batch[MAX_TIMESTAMP]), 1
    return to_microseconds(batch[BASE_TIMESTAMP] + timestamp_delta), 0


@inlined
def to_microseconds(timestamp_ms: int) -> int:
    """Milliseconds to microseconds, held inside 64 bits."""
    return min(max(timestamp_ms, -TIMESTAMP_MS_MAX), TIMESTAMP_MS_MAX) * MICROSECONDS


@inlined
def point_at(columns: RecordColumns) -> RecordColumns:
    """The same columns as pointers."""
    headers = columns.headers
    return RecordColumns(
        pointer_to(columns.offsets),
        pointer_to(columns.timestamps_us),
        pointer_to(columns.timestamp_types),
        point_at_binary(columns.keys),
        point_at_binary(columns.values),
        HeaderColumn(
            pointer_to(headers.ends),
            pointer_to(headers.valid),
            point_at_binary(headers.keys),
            point_at_binary(headers.values),
            headers.capacity,
        ),
        columns.capacity,
    )


@inlined
def point_at_binary(column: BinaryColumn) -> BinaryColumn:
    """The same column as pointers."""
    return BinaryColumn(pointer_to(column.ends), pointer_to(column.content), pointer_to(column.valid), column.capacity)
