"""The price service, tested with `hutong_bus` as docs/testing.md shows: threads, an event loop, a broken broker."""

import queue
import threading
from typing import Any

import pytest
from tests.compat.price_service import CHANGES, DEAD, GROUP, NOT_FOUND, PriceService

from hutong.bus.bus import EventBus
from hutong.bus.durable.records import DEAD_PREFIX
from hutong.bus.errors import ReplyError
from hutong.testing import EmbeddedNode

pytestmark = [pytest.mark.hutong_topic(CHANGES), pytest.mark.hutong_topic(DEAD)]
TIMEOUT_S = 30.0  # of waits for a group to form


@pytest.fixture
def changed(hutong_bus: EventBus) -> "queue.Queue[Any]":
    """The changes that are published, in order."""
    told: queue.Queue[Any] = queue.Queue()
    hutong_bus.consumer("prices.changed", lambda message: told.put(message.body))
    return told


def test_a_change_is_told_and_then_answered(
    hutong_node: EmbeddedNode, hutong_bus: EventBus, changed: "queue.Queue[Any]"
) -> None:
    PriceService(hutong_bus)
    hutong_bus.publish(f"topic:{CHANGES}", {"name": "tea", "price": 3})
    assert changed.get(timeout=TIMEOUT_S) == {"name": "tea", "price": 3}
    assert hutong_bus.request("prices.get", "tea").result(TIMEOUT_S).body == 3
    hutong_node.wait_for_lag(GROUP, CHANGES, timeout=TIMEOUT_S)


async def test_an_unknown_name_fails_as_typed(hutong_bus: EventBus) -> None:
    PriceService(hutong_bus)
    with pytest.raises(ReplyError) as failed:
        await hutong_bus.request("prices.get", "coffee")
    assert (failed.value.failure_code, str(failed.value)) == (NOT_FOUND, "no price for coffee")


def test_a_change_that_cannot_be_made_is_tried_again_and_put_aside(
    hutong_node: EmbeddedNode, hutong_bus: EventBus, changed: "queue.Queue[Any]"
) -> None:
    PriceService(hutong_bus)
    hutong_node.produce(CHANGES, '{"name": "tea", "price": "dear"}', headers={"content-type": "application/json"})
    hutong_bus.publish(f"topic:{CHANGES}", {"name": "tea", "price": 4})
    (dead,) = hutong_node.records(DEAD, count=1, timeout=TIMEOUT_S)
    assert (dead.header(f"{DEAD_PREFIX}attempts"), dead.header(f"{DEAD_PREFIX}error-type")) == (b"3", b"ValueError")
    assert changed.get(timeout=TIMEOUT_S) == {"name": "tea", "price": 4}


def test_changes_outlive_a_broker_that_is_killed(
    hutong_node: EmbeddedNode, hutong_bus: EventBus, changed: "queue.Queue[Any]"
) -> None:
    PriceService(hutong_bus)
    hutong_bus.publish(f"topic:{CHANGES}", {"name": "tea", "price": 1})
    assert changed.get(timeout=TIMEOUT_S)["price"] == 1
    hutong_node.kill()
    assert hutong_bus.request("prices.get", "tea").result(TIMEOUT_S).body == 1  # the bus is not the broker's
    hutong_bus.publish(f"topic:{CHANGES}", {"name": "tea", "price": 2})
    hutong_node.start()
    while changed.get(timeout=TIMEOUT_S)["price"] != 2:
        pass  # what was handled and not committed is handled again
    hutong_node.wait_for_lag(GROUP, CHANGES, timeout=TIMEOUT_S)


def test_nothing_is_left_of_a_consumer_of_a_topic() -> None:
    threads = set(threading.enumerate())
    with EmbeddedNode(topics=[CHANGES]) as node:
        PriceService(node.bus)
        node.wait_for_group(GROUP, members=1, timeout=TIMEOUT_S)
    assert set(threading.enumerate()) == threads
