import struct
import sys
import zlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import LimitExceeded, ProtocolError, UsageError
from hutong.wire.kafka.compression import Compression, compress, decompress

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
