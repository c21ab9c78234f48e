"""The codecs of record batches: gzip from the standard library, the others through cramjam where it is installed.

What comes out is bounded by a limit of the caller: never is more produced, whatever the input promises. Knows nothing
of batches.
"""

import importlib
import struct
import zlib
from enum import IntEnum
from typing import Any

from hutong.foundation.errors import LimitExceeded, ProtocolError, UsageError
from hutong.wire.buffer import Buffer

DECOMPRESSED_BYTES_MAX = 128 * 2**20
"""The most that one batch may unpack to, unless the caller says otherwise."""

_FIRST_GUESS_BYTES = 64 * 1024
_GUESS_GROWTH = 8
_GZIP_WINDOW_BITS = 31
_XERIAL_MAGIC = b"\x82SNAPPY\0"  # snappy-java frames its blocks: magic, two 32-bit versions, then (size, block) pairs
_XERIAL_HEADER_BYTES = 16
_XERIAL_BLOCK_BYTES = 32 * 1024


class Compression(IntEnum):
    """Bits 0 to 2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(compression: Compression, data: bytes) -> bytes:
    """Raises UsageError when the codec is not installed."""
    match compression:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return zlib.compress(data, wbits=_GZIP_WINDOW_BITS)
        case Compression.SNAPPY:
            return _compress_xerial(data)
        case Compression.LZ4:
            return _compress_lz4(data)
        case Compression.ZSTD:
            return bytes(_cramjam(compression).zstd.compress(data))


def decompress(compression: Compression, data: Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
    """Raises ProtocolError for corrupt data, LimitExceeded above `bytes_max`, UsageError for a missing codec."""
    match compression:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _decompress_gzip(data, bytes_max)
        case Compression.SNAPPY:
            return _decompress_snappy(data, bytes_max)
        case Compression.LZ4 | Compression.ZSTD:
            return _decompress_frame(compression, data, bytes_max)


def _cramjam(compression: Compression) -> Any:
    try:
        return importlib.import_module("cramjam")
    except ImportError:
        name = compression.name.lower()
        raise UsageError(f"records compressed with {name} need cramjam: run `pip install cramjam`", 69) from None


def _too_much(bytes_max: int) -> LimitExceeded:
    return LimitExceeded("DECOMPRESSED_BYTES_MAX", bytes_max)


def _decompress_gzip(data: Buffer, bytes_max: int) -> bytes:
    """Members may follow one another (RFC 1952, section 2.2)."""
    pieces, room, rest = [], bytes_max, bytes(data)
    try:
        while rest:
            member = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
            piece = member.decompress(rest, room + 1)
            room -= len(piece)
            if room < 0:
                raise _too_much(bytes_max)
            if not member.eof:
                raise ProtocolError("gzip data is cut short")
            pieces.append(piece)
            rest = member.unused_data
    except zlib.error as error:
        raise ProtocolError(f"gzip: {error}") from error
    return b"".join(pieces)


def _compress_lz4(data: bytes) -> bytes:
    """Kafka's own clients read frames of independent blocks only (KIP-57)."""
    compressor = _cramjam(Compression.LZ4).lz4.Compressor(block_linked=False)
    compressor.compress(data)
    return bytes(compressor.finish())


def _compress_xerial(data: bytes) -> bytes:
    raw = _cramjam(Compression.SNAPPY).snappy.compress_raw
    pieces = [_XERIAL_MAGIC, struct.pack(">ii", 1, 1)]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        pieces += (struct.pack(">i", len(block)), block)
    return b"".join(pieces)


def _decompress_snappy(data: Buffer, bytes_max: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, bytes_max)
    pieces, room, position = [], bytes_max, _XERIAL_HEADER_BYTES
    while position < len(view):
        start = position + 4
        position = start + int.from_bytes(view[position:start], "big")
        if position > len(view):
            raise ProtocolError("snappy: a block points past the end")
        pieces.append(_decompress_snappy_block(view[start:position], room))
        room -= len(pieces[-1])
    return b"".join(pieces)


def _decompress_snappy_block(block: memoryview, bytes_max: int) -> bytes:
    cramjam = _cramjam(Compression.SNAPPY)
    try:
        if cramjam.snappy.decompress_raw_len(block) > bytes_max:  # the length stands before the data
            raise _too_much(bytes_max)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise ProtocolError(f"snappy: {error}") from error


def _decompress_frame(compression: Compression, data: Buffer, bytes_max: int) -> memoryview:
    """Into a buffer of our own that grows until it is enough or at the limit: cramjam itself knows no limit."""
    cramjam = _cramjam(compression)
    unpack_into = getattr(cramjam, compression.name.lower()).decompress_into
    guess = max(_FIRST_GUESS_BYTES, _GUESS_GROWTH * len(data))
    while True:
        output = bytearray(min(guess, bytes_max))
        try:
            return memoryview(output)[: unpack_into(data, output)]
        except cramjam.DecompressionError as error:
            if "write whole buffer" not in str(error):
                raise ProtocolError(f"{compression.name.lower()}: {error}") from error
            if guess >= bytes_max:
                raise _too_much(bytes_max) from error
        guess *= _GUESS_GROWTH
