"""The encoding pass: chosen rows of Arrow columns become the records of one batch (KIP-98), each byte copied once.

Knows nothing of batch headers, compression or producers.
"""

from hutong.pipelines.native import (
    BytePointer,
    Bytes,
    Int64s,
    compiled,
    copy_bytes,
    inlined,
    pointer_to,
    varint_size,
    write_varint,
)
from hutong.pipelines.sink.encode.rows import BinaryRows, HeaderRows, RecordRows

ATTRIBUTES_BYTES = 1


@compiled
def encode_records(rows: RecordRows, chosen: Int64s, target: Bytes, begin: int, end: int) -> tuple[int, int, int]:
    """Write records from the front of `chosen` (row numbers) to `target[begin:]`, while they end before `end`.

    Returns how many were written, the position after them, and how many bytes the first needs that did not fit.
    """
    content, numbers = pointer_to(target), pointer_to(chosen)
    keys, values = point_at_binary(rows.keys), point_at_binary(rows.values)
    headers = HeaderRows(
        pointer_to(rows.headers.ends),
        point_at_binary(rows.headers.keys),
        point_at_binary(rows.headers.values),
        rows.headers.present,
    )
    times, with_times = pointer_to(rows.times.milliseconds), rows.times.present
    base_time = times[numbers[0]] if with_times and chosen.shape[0] else 0
    position = begin
    for delta in range(chosen.shape[0]):
        row = numbers[delta]
        time_delta = times[row] - base_time if with_times else 0  # without times all get that of the batch
        size = ATTRIBUTES_BYTES + varint_size(time_delta) + varint_size(delta)
        size += bytes_size(keys, row) + bytes_size(values, row)
        size += headers_size(headers, row)
        if position + varint_size(size) + size > end:
            return delta, position, varint_size(size) + size
        position = write_varint(content, position, size)
        content[position] = 0
        position = write_varint(content, position + ATTRIBUTES_BYTES, time_delta)
        position = write_varint(content, position, delta)
        position = write_bytes(content, position, keys, row)
        position = write_bytes(content, position, values, row)
        position = write_headers(content, position, headers, row)
    return chosen.shape[0], position, 0


@compiled
def headers_size(headers: HeaderRows, row: int) -> int:
    """Return the size of a record's headers in bytes."""
    if not headers.present:
        return 1
    first, end = int(headers.ends[row]), int(headers.ends[row + 1])
    size = varint_size(end - first)
    for pair in range(first, end):
        size += bytes_size(headers.keys, pair) + bytes_size(headers.values, pair)
    return size


@compiled
def write_headers(target: BytePointer, position: int, headers: HeaderRows, row: int) -> int:
    """Write a record's headers and return the position after them."""
    if not headers.present:
        return write_varint(target, position, 0)
    first, end = int(headers.ends[row]), int(headers.ends[row + 1])
    position = write_varint(target, position, end - first)
    for pair in range(first, end):
        position = write_bytes(target, position, headers.keys, pair)
        position = write_bytes(target, position, headers.values, pair)
    return position


@inlined
def bytes_size(column: BinaryRows, row: int) -> int:
    """Return the size of a value with its length field in bytes."""
    if not column.present or column.valid[row] == 0:
        return 1
    size = int(column.ends[row + 1]) - int(column.ends[row])
    return varint_size(size) + size


@inlined
def write_bytes(target: BytePointer, position: int, column: BinaryRows, row: int) -> int:
    """Write a value with its length before it, -1 for null, and return the position after it."""
    if not column.present or column.valid[row] == 0:
        return write_varint(target, position, -1)
    start = int(column.ends[row])
    size = int(column.ends[row + 1]) - start
    position = write_varint(target, position, size)
    copy_bytes(target, position, column.content, start, size)
    return position + size


@inlined
def point_at_binary(column: BinaryRows) -> BinaryRows:
    """The same column as pointers."""
    return BinaryRows(pointer_to(column.ends), pointer_to(column.content), pointer_to(column.valid), column.present)
