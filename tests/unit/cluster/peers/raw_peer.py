"""A peer made by hand: a socket, and a handshake that goes as far as one likes."""

import asyncio
import struct

from hutong.cluster.peers.handshake.machine import DiallingHandshake, Handshake
from hutong.cluster.peers.identity import PeerIdentity
from hutong.wire.rocketmq.command import IS_ONEWAY, Command, decode, encode_binary

NONCE = b"n" * 32


class RawPeer:
    """Sends and reads frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, address: tuple[str, int, int]) -> "RawPeer":
        return cls(*await asyncio.open_connection(*address[:2]))

    @classmethod
    async def linked(cls, address: tuple[str, int, int], own: PeerIdentity, secret: bytes, to_node: int) -> "RawPeer":
        """A connection with the whole handshake behind it."""
        peer = await cls.connect(address)
        await peer.greet(DiallingHandshake(own, secret, NONCE, to_node))
        return peer

    async def greet(self, handshake: Handshake) -> None:
        sent = handshake.begin()
        while True:
            for code, body in sent:
                self.send(code, body)
            if handshake.is_done:
                return
            command = await self.read()
            sent = handshake.receive(command.code, command.body)

    def send(self, code: int, body: bytes = b"", header: bytes = b"") -> None:
        self.writer.write(encode_binary(code, 0, IS_ONEWAY, header, body))

    async def read(self) -> Command:
        (length,) = struct.unpack(">I", await self.reader.readexactly(4))
        return decode(await self.reader.readexactly(length))

    async def ended(self) -> bytes:
        """Wait for the end; returns what came before it."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    async def close(self) -> None:
        self.writer.transport.abort()
        await asyncio.sleep(0)
