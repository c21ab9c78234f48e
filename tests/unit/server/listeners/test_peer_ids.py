"""Numbers of connections: handlers keep state by them, so listeners of one node must not give one number twice."""

import asyncio
from pathlib import Path

import pytest
from tests.support.monitored import monitored_node

from hutong.broker.dispatch.dispatcher import Dispatch
from hutong.reactor.connections.handler import Peer
from hutong.server.configuration.sections.network import KafkaSettings

PROTOCOLS = ("INSIDE:PLAINTEXT", "OUTSIDE:PLAINTEXT")


async def test_connections_of_two_listeners_have_different_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: asyncio.Queue[int] = asyncio.Queue()
    opened = Dispatch.connection_opened

    def note(self: Dispatch, peer: Peer) -> None:
        opened(self, peer)
        numbers.put_nowait(peer.id)

    monkeypatch.setattr(Dispatch, "connection_opened", note)
    listeners = KafkaSettings(listeners=("INSIDE://127.0.0.1:0", "OUTSIDE://127.0.0.1:0"), listener_protocols=PROTOCOLS)
    async with monitored_node(tmp_path / "node", kafka=listeners) as info:
        ports = [listener.bound.port for listener in info.listeners]
        writers = [(await asyncio.open_connection("127.0.0.1", port))[1] for port in ports]
        seen = {await numbers.get() for _ in ports}
        for writer in writers:
            writer.close()
    assert len(seen) == 2
