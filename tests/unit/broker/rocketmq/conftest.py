"""A node and a client for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.broker.rocketmq.scene import RocketClient, RocketScene, rocketmq_client, rocketmq_node

from hutong.groups.rocketmq.clients import RocketClients


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[RocketScene]:
    async with rocketmq_node(tmp_path) as scene:
        yield scene


@pytest.fixture
async def client(scene: RocketScene) -> AsyncIterator[RocketClient]:
    async with rocketmq_client(scene.address) as client:
        yield client


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Senders of half messages are at another address than the test's other clients."""
    sends_half = RocketClients.sends_half

    def noted(clients: RocketClients, group: str, connection: int, _address: str) -> None:
        sends_half(clients, group, connection, "192.0.2.1")

    monkeypatch.setattr(RocketClients, "sends_half", noted)
