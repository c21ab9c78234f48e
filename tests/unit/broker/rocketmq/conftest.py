"""A node and a client for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.broker.rocketmq.scene import RocketClient, RocketScene, rocketmq_client, rocketmq_node


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[RocketScene]:
    async with rocketmq_node(tmp_path) as scene:
        yield scene


@pytest.fixture
async def client(scene: RocketScene) -> AsyncIterator[RocketClient]:
    async with rocketmq_client(scene.address) as client:
        yield client
