"""Text and hex: forms that all bytes have.

Knows nothing of other forms.
"""

import codecs
from typing import Final

_ROW_BYTES: Final = 16
ROW_CHARS: Final = 8 + 2 + 3 * _ROW_BYTES + 1 + _ROW_BYTES + 1
"""Offset, bytes, characters and the end of the line."""


def read_text(data: bytes, bytes_max: int) -> tuple[str, int]:
    """The first `bytes_max` bytes as UTF-8, U+FFFD for what is none, and the number of those. A cut is no fault."""
    head = data[:bytes_max]
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(head, final=len(head) == len(data))
    # A U+FFFD that was sent as such is no fault either.
    return text, text.count("�") - head.count("�".encode())


def read_hex(data: bytes, chars_max: int) -> tuple[str, bool]:
    """Rows of offset, bytes and ASCII, as of hexdump, and True where those are all."""
    rows_max = max(1, chars_max // ROW_CHARS)
    head = data[: rows_max * _ROW_BYTES]
    rows = [_row(offset, head[offset : offset + _ROW_BYTES]) for offset in range(0, len(head), _ROW_BYTES)]
    return "\n".join(rows), len(head) == len(data)


def _row(offset: int, data: bytes) -> str:
    shown = "".join([chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data])
    return f"{offset:08x}  {data.hex(' '):<{3 * _ROW_BYTES}} {shown}"
