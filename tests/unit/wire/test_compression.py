import struct
import sys
import tracemalloc
import zlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import LimitExceeded, ProtocolError, UsageError
from hutong.wire.kafka.batch.compression import (
    BUFFER_BYTES_MAX,
    GZIP_MEMBERS_MAX,
    SNAPPY_BLOCK_BYTES_MIN,
    SNAPPY_BLOCKS_FREE,
    Compression,
    compress,
    decompress,
)

PACKING = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
ZEROS = bytes(1_000_000)


@given(data=st.binary(max_size=3000), compression=st.sampled_from(Compression))
def test_round_trip(data: bytes, compression: Compression) -> None:
    assert decompress(compression, compress(compression, data)) == data


@pytest.mark.parametrize("compression", PACKING)
def test_large_data_round_trip(compression: Compression) -> None:
    data = ZEROS + Random(1).randbytes(200_000)
    packed = compress(compression, data)
    assert len(packed) < 300_000
    assert decompress(compression, memoryview(packed)) == data


@pytest.mark.parametrize("compression", PACKING)
@pytest.mark.parametrize("bytes_max", [0, 1000, len(ZEROS) - 1])
def test_output_is_bounded(compression: Compression, bytes_max: int) -> None:
    packed = compress(compression, ZEROS)
    assert len(decompress(compression, packed, len(ZEROS))) == len(ZEROS)
    with pytest.raises(LimitExceeded):
        decompress(compression, packed, bytes_max)


@pytest.mark.parametrize("compression", PACKING)
def test_corrupt_data_is_refused(compression: Compression) -> None:
    packed = compress(compression, Random(2).randbytes(500))
    for data in (packed[:-10], b"garbage" * 20, packed[:30]):
        with pytest.raises((ProtocolError, LimitExceeded)):
            decompress(compression, data, 100_000)


def test_gzip_members_follow_one_another() -> None:
    packed = zlib.compress(b"one", wbits=31) + zlib.compress(b"two", wbits=31)
    assert decompress(Compression.GZIP, packed) == b"onetwo"


def test_the_members_of_gzip_are_bounded() -> None:
    """Each costs an inflater, and 4 MB hold 200,000 empty ones."""
    for member in (zlib.compress(b"", wbits=31), zlib.compress(b"value", wbits=31)):
        unpacked = zlib.decompress(member, wbits=31) * GZIP_MEMBERS_MAX
        assert decompress(Compression.GZIP, member * GZIP_MEMBERS_MAX) == unpacked
        with pytest.raises(LimitExceeded, match="GZIP_MEMBERS_MAX"):
            decompress(Compression.GZIP, member * (GZIP_MEMBERS_MAX + 1))


def test_gzip_members_may_end_anywhere_in_what_is_read_at_once() -> None:
    noise = Random(3).randbytes(200_000)
    pieces = [noise, b"", noise[:65_513], noise[:65_536], b"last"]
    packed = b"".join(zlib.compress(piece, wbits=31) for piece in pieces)
    assert decompress(Compression.GZIP, packed) == b"".join(pieces)
    for end in (len(packed) - 1, 70_000, 64 * 1024, 9):
        with pytest.raises(ProtocolError, match="cut short"):
            decompress(Compression.GZIP, packed[:end])
    with pytest.raises(ProtocolError):
        decompress(Compression.GZIP, packed + b"x")


def test_the_blocks_of_snappy_are_bounded() -> None:
    """Each costs a call, and 20 MB hold four million empty ones."""
    bytes_max = 10 * SNAPPY_BLOCK_BYTES_MIN
    blocks_max = SNAPPY_BLOCKS_FREE + 10
    framing = compress(Compression.SNAPPY, b"")[:16]
    for block in (b"\0\0\0\1\0", b"\0\0\0\3\1\0a"):
        packed = framing + block * blocks_max
        assert decompress(Compression.SNAPPY, packed, bytes_max) == (b"a" * blocks_max if len(block) > 5 else b"")
        with pytest.raises(LimitExceeded, match="SNAPPY_BLOCKS_MAX"):
            decompress(Compression.SNAPPY, packed + block, bytes_max)
    with pytest.raises(ProtocolError):
        decompress(Compression.SNAPPY, framing + bytes(4))  # not even the length of its content
    smallest = [compress(Compression.SNAPPY, bytes(SNAPPY_BLOCK_BYTES_MIN))[16:]] * 10
    assert len(decompress(Compression.SNAPPY, framing + b"".join(smallest), bytes_max)) == bytes_max


@pytest.mark.parametrize("compression", PACKING)
def test_small_data_take_little_memory_whatever_the_limit(compression: Compression) -> None:
    packed = compress(compression, b"value" * 100)
    decompress(compression, packed)
    tracemalloc.start()
    try:
        decompress(compression, packed, 2**34)
        assert tracemalloc.get_traced_memory()[1] < BUFFER_BYTES_MAX / 4
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("compression", PACKING)
@pytest.mark.parametrize(
    "size", [BUFFER_BYTES_MAX - 1, BUFFER_BYTES_MAX, BUFFER_BYTES_MAX + 1, 3 * BUFFER_BYTES_MAX + 7]
)
def test_output_around_the_size_of_a_buffer(compression: Compression, size: int) -> None:
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    packed = compress(compression, data)
    assert decompress(compression, packed) == data
    assert decompress(compression, packed, size) == data
    with pytest.raises(LimitExceeded):
        decompress(compression, packed, size - 1)


def test_plain_snappy_is_read_too() -> None:
    framed = compress(Compression.SNAPPY, b"value" * 100)
    size = struct.unpack_from(">i", framed, 16)[0]
    assert len(framed) == 20 + size
    assert decompress(Compression.SNAPPY, framed[20:]) == b"value" * 100


def test_a_snappy_block_cannot_point_past_the_end() -> None:
    framed = bytearray(compress(Compression.SNAPPY, b"value" * 100))
    for size in (2**31 - 1, len(framed) - 19, -1):
        struct.pack_into(">i", framed, 16, size)
        with pytest.raises(ProtocolError):
            decompress(Compression.SNAPPY, framed)
    with pytest.raises(ProtocolError):
        decompress(Compression.SNAPPY, framed[:18])


@pytest.mark.parametrize("compression", [Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_missing_codec_says_what_to_install(compression: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(UsageError, match="pip install cramjam"):
        decompress(compression, b"data")


def test_lz4_blocks_are_independent() -> None:
    """KIP-57: Java clients refuse linked blocks. Bit 5 of the frame's flags says which they are."""
    assert compress(Compression.LZ4, ZEROS)[4] & 0x20
