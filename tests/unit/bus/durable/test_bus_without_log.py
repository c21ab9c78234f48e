"""Durable addresses on a bus that has no log, or asked for what they do not have: clear errors, nothing left behind."""

import subprocess
import sys

import pytest

from hutong.bus import EventBus
from hutong.foundation.errors import UsageError


async def test_without_a_log_a_durable_address_is_a_clear_error(bus: EventBus) -> None:
    with pytest.raises(UsageError, match="no log"):
        bus.publish("topic:orders", 1)
    with pytest.raises(UsageError, match="no log"):
        bus.consumer("topic:orders", print, group="billing")


async def test_a_durable_address_has_no_send_no_request_and_no_producer(bus: EventBus) -> None:
    for call in (bus.send, bus.request):
        with pytest.raises(UsageError, match="durable"):
            call("topic:orders", 1)
    for make in (bus.sender, bus.publisher):
        with pytest.raises(UsageError, match="back-pressure"):
            make("topic:orders")


async def test_durable_options_are_for_durable_addresses(bus: EventBus) -> None:
    with pytest.raises(TypeError, match="group is for durable addresses"):
        bus.consumer("orders", print, group="billing")


async def test_a_plain_publish_may_be_awaited(bus: EventBus) -> None:
    assert await bus.publish("orders", 1) is None


def test_the_bus_needs_no_kafka_client() -> None:
    program = "import sys, hutong.bus, hutong.bus.durable; sys.exit('confluent_kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
