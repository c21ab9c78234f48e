"""Targets for what is inside a batch: both walks over its records, its codecs, and the search by time."""

import struct
from collections.abc import Iterator
from typing import Any, Final

from tests.fuzz.kafka_targets import UNPACKED_MAX, batches, packed, reseal_batch
from tests.fuzz.target import MEBIBYTE, Target
from tests.support.record_walks import check_agreement, walks

from hutong.foundation.errors import LimitExceeded, ProtocolError
from hutong.journal.read.timestamps import TimestampSearch
from hutong.wire.kafka.batch.compression import Compression, compress, decompress
from hutong.wire.kafka.batch.record_slices import iterate_slices
from hutong.wire.kafka.batch.record_walk import INT64_MAX, INT64_MIN
from hutong.wire.kafka.batch.records import (
    HEADER_BYTES,
    BatchHeader,
    iterate_batches,
    iterate_records,
    parse_batch_header,
)
from hutong.wire.otlp import labelled

_NUMBERS: Final = struct.Struct(">iqqii")
_START_OFFSET: Final = 2
_LIMIT: Final = 6


METRICS_SEEDS: Final = [
    b"",
    b"\x0a\x0c\x0a\x04\x0a\x02\x0a\x00\x12\x04\x12\x02\x0a\x00",
    b"\x0a\x02\x1a\x00\x0a\x00",
]


def label_metrics(data: bytes) -> object:
    """Metrics of a client, to which labels are added; labelled ones can be labelled again."""
    return labelled(labelled(data, {"client_id": "a"}), {"client_id": "b"})


def walk_records(data: bytes) -> object:
    """Numbers, then records: what one walk takes, all take, and so do the readers that build something of records."""
    if len(data) < _NUMBERS.size:
        return None
    count, base_ms, from_ms, least, end = _NUMBERS.unpack_from(data)
    check_agreement(data, _NUMBERS.size, count, base_ms, (from_ms, least, end))
    found = [walk.examine_records(data, _NUMBERS.size, count, base_ms, INT64_MIN, INT64_MAX) for walk in walks()]
    slices = list(iterate_slices(data[_NUMBERS.size :], count, count - 1))
    assert [number for number, piece in enumerate(slices) if piece.key is None][:100] == list(found[0].keyless)
    assert max([base_ms + piece.timestamp_delta_ms for piece in slices], default=-1) <= found[0].greatest_timestamp_ms
    return found


def record_contents() -> Iterator[bytes]:
    for batch in batches():
        header = parse_batch_header(batch)
        if not header.compression:
            yield _NUMBERS.pack(header.record_count, 1_000, 1_001, 0, 3) + batch[HEADER_BYTES:]
    yield _NUMBERS.pack(0, 0, 0, 0, 0)
    yield _NUMBERS.pack(2**31 - 1, INT64_MAX, 0, 0, 1) + b"\xff" * 50
    yield _NUMBERS.pack(1, -1, 0, 0, 1) + b"\x2c\0" + b"\xff" * 9 + b"\1" + b"\x80" * 4 + b"\0\1\1\0"


def unpack_within(data: bytes) -> object:
    """As much as there is: neither more than the limit nor less for a smaller one that is enough."""
    if not data:
        return None
    codec, content = Compression(data[0] % 5), memoryview(data)[1:]
    unpacked = bytes(decompress(codec, content, UNPACKED_MAX))
    if codec is Compression.NONE:
        return unpacked
    assert len(unpacked) <= UNPACKED_MAX
    if codec is not Compression.SNAPPY:  # of which the limit bounds the blocks too
        assert decompress(codec, content, len(unpacked)) == unpacked
    if unpacked:
        try:
            decompress(codec, content, len(unpacked) - 1)
        except LimitExceeded:
            return unpacked
        raise AssertionError("more was unpacked than the limit allows")
    return unpacked


def packed_in_pieces() -> Iterator[bytes]:
    yield from packed()
    gzip, lz4, zstd = (compress(codec, b"abc" * 9) for codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD))
    framed = compress(Compression.SNAPPY, b"abc" * 9)
    skippable = struct.pack("<II", 0x184D2A50, 3) + b"xyz"
    yield b"\1" + compress(Compression.GZIP, b"") * 20 + gzip
    yield b"\2" + framed + framed[16:] * 20 + b"\0\0\0\1\0" * 20
    yield b"\2" + framed[20:]
    yield b"\3" + lz4 * 3 + skippable + compress(Compression.LZ4, b"") * 9
    yield b"\4" + zstd * 3 + skippable + compress(Compression.ZSTD, b"") * 9


def search_by_time(data: bytes) -> object:
    """A search through each stored batch, sound or not, gives an offset of that batch that readers may see."""
    nothing: Any = None
    search: Any = TimestampSearch([], _START_OFFSET, _LIMIT, nothing, nothing, lambda outcome: None)
    found = []
    for header, batch in iterate_batches(memoryview(data)):
        for from_ms in (None, 0, 1_000, 1_001, 2**62):
            told = search._search(header, batch, from_ms)
            if told is not None:
                assert header.base_offset <= told[1] <= header.last_offset
                assert _START_OFFSET <= told[1] < _LIMIT
            found.append(told)
        _compare_with_list(search, header, batch)
    return found


def _compare_with_list(search: Any, header: BatchHeader, batch: memoryview) -> None:
    try:
        records = list(iterate_records(batch, UNPACKED_MAX))
    except (ProtocolError, LimitExceeded):
        return  # the walks need no UTF-8, hence take some that this reader refuses, and bound timestamps
    if header.is_log_append_time or any(not INT64_MIN <= record.timestamp_ms <= INT64_MAX for record in records):
        return
    end = min(_LIMIT, header.last_offset + 1)
    seen = [(one.timestamp_ms, one.offset) for one in records if _START_OFFSET <= one.offset < end]
    told = search._search(header, batch, None)
    best = max((one[0] for one in seen), default=None)
    if told is not None and told != (header.max_timestamp_ms, header.base_offset):
        assert told == next(one for one in seen if one[0] == best)


TARGETS = [
    Target("record-content", walk_records, record_contents),
    Target("client-metrics", label_metrics, lambda: METRICS_SEEDS),
    Target("codec-pieces", unpack_within, packed_in_pieces, (ProtocolError, LimitExceeded), memory_base=8 * MEBIBYTE),
    Target(
        "timestamp-search",
        search_by_time,
        lambda: [*batches(), b"".join(batches())],
        (ProtocolError, LimitExceeded),
        reseal_batch,
        memory_base=24 * MEBIBYTE,
    ),
]
