"""A line to a server that a test can cut: connections through it end, and new ones are refused until it is mended.

`silence` is the other kind of cut: connections stay, and nothing passes.
"""

import asyncio
import contextlib
import ssl
from typing import Final

_CHUNK: Final = 65_536


class CuttableLine:
    """Forwards connections on a free port to `port`, both on the loopback interface. It can take TLS off them."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._target = port
        self._tls = tls
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_open = asyncio.Event()
        self._is_open.set()

    async def mend(self) -> None:
        """Begin, or go on after a cut, on the same port."""
        self._is_open.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._forward, "127.0.0.1", self.port, ssl=self._tls)
            self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
            for writer in self._writers:
                writer.transport.abort()
            await server.wait_closed()

    def silence(self) -> None:
        self._is_open.clear()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(far_writer)
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))
        self._writers -= {writer, far_writer}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._is_open.wait()
                writer.write(data)
        writer.close()
