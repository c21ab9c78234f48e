"""Figures of RocketMQ's requests, as the page of metrics shows them."""

import re
from pathlib import Path

from tests.support.monitored import get
from tests.unit.broker.rocketmq.scene import rocketmq_client
from tests.unit.broker.wire_node import opened_node

from hutong.server.configuration.sections.network import MetricsSettings
from hutong.server.configuration.sections.rocketmq import RocketMqSettings
from hutong.server.configuration.settings import Address, Settings
from hutong.wire.rocketmq.codes import RequestCode


async def test_requests_refusals_and_bytes_are_counted_by_code(tmp_path: Path) -> None:
    anywhere = Address("127.0.0.1", 0)
    settings = Settings(rocketmq=RocketMqSettings(listen=anywhere), metrics=MetricsSettings(listen=anywhere))
    async with opened_node(tmp_path, settings) as addresses:
        assert addresses.rocketmq is not None
        async with rocketmq_client(addresses.rocketmq) as client:
            await client.send(b"12345")
            await client.pull(1)
            await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="absent")
        _, body = await get(addresses.metrics, "/metrics?detail=full")
    found = set(re.findall(r"^hutong_rocketmq_(\S+) (\S+)$", body, flags=re.MULTILINE))
    assert {
        ('requests_total{request="SEND_MESSAGE"}', "1"),
        ('received_bytes_total{request="SEND_MESSAGE"}', "5"),
        ('refused_total{request="PULL_MESSAGE",code="19"}', "1"),
        ('refused_total{request="GET_ROUTEINFO_BY_TOPIC",code="17"}', "1"),
        ("throttled_total", "0"),
        ("signatures_refused_total", "0"),
    } <= found
