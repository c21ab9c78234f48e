"""A peer of RPC connections that a test writes byte by byte: frames by the format's own description, true or not.

Knows no code of the product, so that both cannot be wrong in the same way.
"""

import asyncio
import struct
from collections.abc import Iterable
from typing import Final, Self

import msgspec

CALL: Final = 30_001
FAILURE: Final = 30_002
BINARY: Final = 1 << 24


def fields(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Ext fields."""
    parts = [
        struct.pack(">h", len(name.encode())) + name.encode() + struct.pack(">i", len(value.encode())) + value.encode()
        for name, value in pairs
    ]
    return b"".join(parts)


def header(opaque: int, ext: bytes, *, code: int = CALL, flag: int = 0, remark: bytes = b"") -> bytes:
    return struct.pack(">hBhiii", code, 3, 1, opaque, flag, len(remark)) + remark + struct.pack(">i", len(ext)) + ext


def frame(head: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">II", 4 + len(head) + len(body), BINARY | len(head)) + head + body


def call(opaque: int, address: str, action: str, arguments: object, *, timeout: str = "30000") -> bytes:
    ext = fields([("s", address), ("a", action), ("t", timeout)])
    return frame(header(opaque, ext), msgspec.msgpack.encode(arguments))


class RawPeer:
    """One connection. `async with RawPeer(address) as peer`."""

    def __init__(self, address: str) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(self._host, self._port, limit=1 << 26)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def receive(self) -> tuple[int, int, str, bytes]:
        """The next answer: its opaque and code, its remark and its body."""
        length, lengths = struct.unpack(">II", await self.reader.readexactly(8))
        head_bytes = lengths & 0xFFFFFF
        rest = await self.reader.readexactly(length - 4)
        code, _, _, opaque, flag, remark_bytes = struct.unpack_from(">hBhiii", rest)
        assert flag & 1, "an answer"
        return opaque, code, rest[17 : 17 + remark_bytes].decode(), rest[head_bytes:]

    async def must_be_closed(self) -> None:
        """Reads what is left, which ends."""
        try:
            await self.reader.read()
        except ConnectionError:
            return
