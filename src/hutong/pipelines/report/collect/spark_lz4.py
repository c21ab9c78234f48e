"""Spark's `lz4` packing: blocks of lz4 with a head of 21 bytes each, which is not the frame format of the lz4 tools.

The head: the word `LZ4Block`, a byte for packed or raw, then packed length, length and checksum, little endian. Lengths
are bounded before anything is allocated; the checksum is left alone, for a damaged line is no JSON anyway.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO

MAGIC = b"LZ4Block"
HEAD = struct.Struct("<8sBIII")
RAW, PACKED = 0x10, 0x20
BLOCK_BYTES_MAX = 2**25
"""The largest block that a writer may choose."""


def lz4_blocks(file: BinaryIO) -> Iterator[bytes]:
    """Raises ValueError where a block is damaged or cut off; what came before has been given."""
    import cramjam

    while head := file.read(HEAD.size):
        if len(head) < HEAD.size:
            raise ValueError("the head of a block is cut off")
        magic, token, packed_length, length, _checksum = HEAD.unpack(head)
        if magic != MAGIC or packed_length > BLOCK_BYTES_MAX or length > BLOCK_BYTES_MAX:
            raise ValueError("this is no block of Spark's lz4")
        body = file.read(packed_length)
        if len(body) < packed_length:
            raise ValueError("a block is cut off")
        if token & 0xF0 == PACKED:
            try:
                body = bytes(cramjam.lz4.decompress_block(body, output_len=length))
            except cramjam.DecompressionError as error:
                raise ValueError("a block is damaged") from error
        elif token & 0xF0 != RAW:
            raise ValueError("a block is packed in an unknown way")
        if len(body) != length:
            raise ValueError("a block is damaged")
        yield body
