"""Record batches whose content is not what their header says, with CRCs that hold; and the codes that they deserve.

Each is made of pieces that say what is forged, so that a test reads as the list of lies.
"""

import struct
from collections.abc import Iterator
from typing import Final

from crc32c import crc32c

from hutong.wire.kafka.batch.compression import Compression, compress
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.varint import varlong

HEADER: Final = struct.Struct(">qiibIhiqqqhii")


def record(
    offset_delta: int = 0,
    value: bytes | None = b"v",
    *,
    key: bytes | None = None,
    timestamp_delta_ms: int = 0,
    headers: bytes = b"\0",
    length: int | None = None,
) -> bytes:
    """One record; `length` and `headers` (count and all) may be anything."""
    fields = b"\0" + varlong(timestamp_delta_ms) + varlong(offset_delta) + _field(key) + _field(value) + headers
    return varlong(len(fields) if length is None else length) + fields


def batch(
    data: bytes,
    count: int,
    *,
    now_ms: int,
    max_timestamp_ms: int | None = None,
    compression: int = Compression.NONE,
    attributes: int = 0,
    last_offset_delta: int | None = None,
) -> bytes:
    """A batch of these bytes, packed already where they are, that says it has `count` records."""
    last = count - 1 if last_offset_delta is None else last_offset_delta
    greatest_ms = now_ms if max_timestamp_ms is None else max_timestamp_ms
    flags, length = attributes | compression, HEADER.size - 12 + len(data)
    made = bytearray(HEADER.pack(0, length, -1, 2, 0, flags, last, now_ms, greatest_ms, -1, -1, -1, count) + data)
    struct.pack_into(">I", made, 17, crc32c(memoryview(made)[21:]))
    return bytes(made)


def lies(now_ms: int) -> Iterator[tuple[str, bytes, ErrorCode]]:
    """(name, batch, the code that it deserves)."""
    two = record(0) + record(1)
    bad: dict[str, tuple[bytes, int]] = {
        "fifty bytes of 0xff": (b"\xff" * 50, 1),
        "fewer records than said": (two, 3),
        "more records than said": (two, 1),
        "offset deltas the same": (record(0) + record(0), 2),
        "offset deltas with a gap": (record(0) + record(2), 2),
        "offset deltas backwards": (record(1) + record(0), 2),
        "a negative offset delta": (record(-1) + record(0), 2),
        "a record longer than the batch": (record(0) + record(1, length=100), 2),
        "a record shorter than its fields": (record(0) + record(1, length=4), 2),
        "a record of negative length": (record(0, length=-1), 1),
        "a record with bytes behind its fields": (varlong(len(record(0)[1:]) + 1) + record(0)[1:] + b"\0", 1),
        "bytes behind the last record": (two + b"\0", 2),
        "a key longer than the record": (record(0)[:4] + varlong(100) + record(0)[5:], 1),
        "a negative count of headers": (record(0, headers=varlong(-1)), 1),
        "more headers than bytes": (record(0, headers=varlong(2**30)), 1),
        "a header without a key": (record(0, headers=varlong(1) + varlong(-1) + varlong(0)), 1),
        "a varint of eleven bytes": (b"\x14" + b"\x80" * 10, 1),
    }
    for name, (data, count) in bad.items():
        yield name, batch(data, count, now_ms=now_ms), ErrorCode.INVALID_RECORD
        for codec in (Compression.GZIP, Compression.ZSTD):
            packed = compress(codec, data)
            yield (
                f"{name}, {codec.name}",
                batch(packed, count, now_ms=now_ms, compression=codec),
                (ErrorCode.INVALID_RECORD),
            )
    yield "a header that claims 2^31 offsets", batch(b"", 2**31 - 1, now_ms=now_ms), ErrorCode.INVALID_RECORD
    yield "a header alone with one record", batch(b"", 1, now_ms=now_ms), ErrorCode.INVALID_RECORD
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        yield (
            f"what is no {codec.name}",
            batch(b"\x01\x02\x03\x04" * 8, 1, now_ms=now_ms, compression=codec),
            ErrorCode.INVALID_RECORD,
        )
        cut = compress(codec, record(0, b"x" * 3000))[:-6]
        yield (
            f"{codec.name} cut off",
            batch(cut, 1, now_ms=now_ms, compression=codec),
            ErrorCode.INVALID_RECORD,
        )


def _field(data: bytes | None) -> bytes:
    return varlong(-1) if data is None else varlong(len(data)) + data
