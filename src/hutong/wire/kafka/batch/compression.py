"""The codecs of record batches: gzip from the standard library, the others through cramjam.

Strategy: output is bounded by a limit of the caller, and work is linear in the input and that limit; sizes that the
input claims do not matter. Output above BUFFER_BYTES_MAX goes to anonymous memory of the limit's size: the system gives
its pages only as they are written, so nothing is unpacked twice, cleared, or joined while the interpreter is locked.
cramjam and zlib unlock it, hence large batches can be unpacked on another thread without stopping this one. Knows
nothing of batches.
"""

import importlib
import mmap
import struct
import zlib
from enum import IntEnum
from typing import Any

from hutong.foundation.errors import ExitCode, LimitExceeded, ProtocolError, UsageError
from hutong.wire.buffer import Buffer

DECOMPRESSED_BYTES_MAX = 128 * 2**20
"""The default limit of one batch's size when decompressed."""

BUFFER_BYTES_MAX = 1024 * 1024
"""Larger output is written to anonymous memory."""

GZIP_MEMBERS_MAX = 1024
"""In one batch. Producers write one member; an empty one takes 20 bytes and an inflater of its own."""

SNAPPY_BLOCKS_FREE = 64
SNAPPY_BLOCK_BYTES_MIN = 1024
"""snappy-java writes blocks of no fewer bytes, so a limit of output is one of blocks; a few more are free."""

_FIRST_GUESS_BYTES = 64 * 1024
_GUESS_GROWTH = 8
_GZIP_WINDOW_BITS = 31
_GZIP_INPUT_BYTES = 64 * 1024  # zlib copies the input that is left over, so it gets it in pieces
_GZIP_OUTPUT_BYTES = 256 * 1024
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
    """Compress the records of a batch. Raises UsageError when the codec is not installed."""
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
    """Decompress the records of a batch.

    Raises ProtocolError for corrupt data, LimitExceeded above `bytes_max`, UsageError for a missing codec.
    """
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
        raise UsageError(
            f"records compressed with {name} need cramjam: run `pip install cramjam`", ExitCode.UNAVAILABLE
        ) from None


def _too_much(bytes_max: int) -> LimitExceeded:
    return LimitExceeded("DECOMPRESSED_BYTES_MAX", bytes_max)


class _Output:
    """Pieces of output put together, at most `bytes_max` bytes."""

    def __init__(self, bytes_max: int) -> None:
        self.size = 0
        self._bytes_max = bytes_max
        self._pieces: list[Buffer] = []
        self._memory: mmap.mmap | None = None

    @property
    def room(self) -> int:
        return self._bytes_max - self.size

    def add(self, piece: Buffer) -> None:
        end = self.size + len(piece)
        # Checked before a piece is kept: what is beyond the limit is at most one piece.
        if end > self._bytes_max:
            raise _too_much(self._bytes_max)
        if self._memory is None and end <= BUFFER_BYTES_MAX:
            self._pieces.append(piece)
        else:
            if self._memory is None:
                self._memory = mmap.mmap(-1, self._bytes_max)
                self._memory.write(b"".join(self._pieces))
                self._pieces.clear()
            self._memory.write(piece)
        self.size = end

    def whole(self) -> Buffer:
        if self._memory is None:
            return b"".join(self._pieces)
        return memoryview(self._memory)[: self.size]


def _decompress_gzip(data: Buffer, bytes_max: int) -> Buffer:
    """Members may follow one another (RFC 1952, section 2.2)."""
    view, output = memoryview(data), _Output(bytes_max)
    position = members = 0
    try:
        while position < len(view):
            members += 1
            if members > GZIP_MEMBERS_MAX:
                raise LimitExceeded("GZIP_MEMBERS_MAX", GZIP_MEMBERS_MAX)
            position = _decompress_member(view, position, output)
    except zlib.error as error:
        raise ProtocolError(f"gzip: {error}") from error
    return output.whole()


def _decompress_member(view: memoryview, position: int, output: _Output) -> int:
    """Decompress the member that begins at `position` and return the position after it."""
    member = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
    while not member.eof:
        taken: Buffer = member.unconsumed_tail
        if not taken:
            taken = view[position : position + _GZIP_INPUT_BYTES]
            position += len(taken)
        # One byte more than there is room for shows that there is too much; 0 would mean no limit.
        piece = member.decompress(taken, min(_GZIP_OUTPUT_BYTES, output.room + 1))
        # No input is left, and the member has not ended.
        if not piece and not taken and not member.eof:
            raise ProtocolError("gzip data is cut short")
        output.add(piece)
    return position - len(member.unused_data)


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


def _decompress_snappy(data: Buffer, bytes_max: int) -> Buffer:
    view, cramjam = memoryview(data), _cramjam(Compression.SNAPPY)
    # librdkafka writes one bare block, without snappy-java's frame.
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(cramjam, view, bytes_max)
    output, position, blocks = _Output(bytes_max), _XERIAL_HEADER_BYTES, 0
    blocks_max = SNAPPY_BLOCKS_FREE + bytes_max // SNAPPY_BLOCK_BYTES_MIN
    while position < len(view):
        blocks += 1
        # Empty blocks take 4 bytes of input and a call each, without ever reaching the limit of output.
        if blocks > blocks_max:
            raise LimitExceeded("SNAPPY_BLOCKS_MAX", blocks_max)
        start = position + 4
        # Read without a sign, as a negative size points past the end too.
        position = start + int.from_bytes(view[position:start], "big")
        # The size of a block is what its sender claims.
        if position > len(view):
            raise ProtocolError("snappy: a block points past the end")
        output.add(_decompress_snappy_block(cramjam, view[start:position], output.room))
    return output.whole()


def _decompress_snappy_block(cramjam: Any, block: memoryview, bytes_max: int) -> memoryview:
    try:
        if cramjam.snappy.decompress_raw_len(block) > bytes_max:  # reads the block's preamble alone
            raise _too_much(bytes_max)
        return memoryview(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise ProtocolError(f"snappy: {error}") from error


def _decompress_frame(compression: Compression, data: Buffer, bytes_max: int) -> Buffer:
    """Decompress into a buffer of our own, since cramjam itself has no limit.

    The first buffer is a guess that suffices for nearly every batch, the second has the limit's size.
    """
    guess = max(_FIRST_GUESS_BYTES, _GUESS_GROWTH * len(data))
    if guess < min(bytes_max, BUFFER_BYTES_MAX):
        found = _decompress_into(bytearray(guess), compression, data)
        if found is not None:
            return found
    found = _decompress_into(
        bytearray(bytes_max) if bytes_max <= BUFFER_BYTES_MAX else mmap.mmap(-1, bytes_max), compression, data
    )
    if found is None:
        raise _too_much(bytes_max)
    return found


def _decompress_into(output: bytearray | mmap.mmap, compression: Compression, data: Buffer) -> memoryview | None:
    """The part of `output` that was filled; None when the data unpack to more than it holds."""
    cramjam, name = _cramjam(compression), compression.name.lower()
    try:
        return memoryview(output)[: getattr(cramjam, name).decompress_into(data, output)]
    except cramjam.DecompressionError as error:
        if "write whole buffer" in str(error):  # cramjam has no type of error for a full buffer
            return None
        raise ProtocolError(f"{name}: {error}") from error
