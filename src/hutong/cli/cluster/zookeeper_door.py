"""The way of one node to ZooKeeper, which can be shut: then all is lost in silence, as behind a broken switch.

Strategy: a port of its own for each node, whose connections are passed on byte by byte. While the door is shut they
stay open and nothing passes; those that are made meanwhile lead nowhere. When it opens, all of them are closed: what
they have lost cannot be made up for, and clients connect again.

Knows nothing of what is sent.
"""

import asyncio
from typing import Final

READ_BYTES_MAX: Final = 64 * 1024


class ZooKeeperDoor:
    """From `open_port` until `close`."""

    def __init__(self, servers: str) -> None:
        """`servers` are those of ZooKeeper, as HOST:PORT,HOST:PORT."""
        self.is_shut = False
        self._servers = [server.strip().rpartition(":") for server in servers.split(",")]
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.StreamWriter] = set()

    async def open_port(self, host: str) -> str:
        """Take connections; returns HOST:PORT."""
        self._server = await asyncio.start_server(self._serve, host, 0)
        return f"{host}:{self._server.sockets[0].getsockname()[1]}"

    def shut(self) -> None:
        self.is_shut = True

    def open_again(self) -> None:
        if self.is_shut:
            self.is_shut = False
            self._drop_all()

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._drop_all()

    def _drop_all(self) -> None:
        for client in self._clients:
            client.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        try:
            # Accepted all the same: a refusal would say that nobody is there, and a broken network says nothing.
            onward = None if self.is_shut else await self._connect()
            if onward is None:
                await _read_to_end(reader)
                return
            there, back = onward
            try:
                await self._pass_both(reader, writer, there, back)
            finally:
                back.transport.abort()
        finally:
            self._clients.discard(writer)
            writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Reach the first server that answers."""
        for host, _, port in self._servers:
            try:
                return await asyncio.open_connection(host.strip("[]"), int(port))
            except OSError:
                continue
        return None

    async def _pass_both(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> None:
        """Pass on in both directions until one side has ended."""
        tasks = {asyncio.create_task(self._pass(reader, back)), asyncio.create_task(self._pass(there, writer))}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while content := await reader.read(READ_BYTES_MAX):
                # Read in any case, so that the sender does not notice by full buffers either.
                if not self.is_shut:
                    writer.write(content)
                    await writer.drain()
        except OSError:
            return  # the one that waits for this closes the other side


async def _read_to_end(reader: asyncio.StreamReader) -> None:
    try:
        while await reader.read(READ_BYTES_MAX):
            pass
    except OSError:
        return
