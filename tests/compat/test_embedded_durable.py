"""Durable addresses of `hutong.Node`: topics of its own broker, through the Kafka client library."""

import asyncio

import pytest

import hutong

pytestmark = pytest.mark.compat


async def test_durable_addresses_are_topics_of_the_nodes_own_broker() -> None:
    seen: asyncio.Queue[object] = asyncio.Queue()
    async with hutong.Node(kafka="127.0.0.1:0", settings={"group.initial_rebalance_delay_ms": "0"}) as node:
        stored = await node.bus.publish("topic:orders", "one")
        assert stored is not None
        assert (stored.topic, stored.offset) == ("orders", 0)
        node.bus.consumer("topic:orders", lambda message: seen.put_nowait(message.body), group="billing")
        assert await asyncio.wait_for(seen.get(), 20) == "one"
