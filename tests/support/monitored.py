"""A node whose page of metrics is read, as a scraper reads it."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.exposition import ParsedFamily, parse

from hutong.journal.files.disk import Disk
from hutong.server.broker.broker_part import BrokerPart
from hutong.server.broker.system_ports import SystemPorts
from hutong.server.composition import NodeAddresses
from hutong.server.configuration.sections.network import KafkaSettings, MetricsSettings
from hutong.server.configuration.sections.node import NodeSettings
from hutong.server.configuration.settings import Address, Settings
from hutong.server.serving import node_of

ANY_PORT = Address("127.0.0.1", 0)
FULL = "/metrics?detail=full"


def settings(tmp_path: Path, metrics: Address = ANY_PORT, bounds: MetricsSettings | None = None) -> Settings:
    return dataclasses.replace(
        Settings(),
        node=NodeSettings(data_dir=tmp_path),
        kafka=KafkaSettings(listen=ANY_PORT),
        metrics=dataclasses.replace(bounds or MetricsSettings(), listen=metrics),
    )


@asynccontextmanager
async def monitored_node(
    tmp_path: Path, disk: Disk | None = None, bounds: MetricsSettings | None = None, **sections: Any
) -> AsyncIterator[NodeAddresses]:
    """A running node; the bounds are those of `[metrics]`, and other sections of its settings may be given whole."""
    chosen = dataclasses.replace(settings(tmp_path, bounds=bounds), **sections)
    node = node_of(BrokerPart(chosen, ports=None if disk is None else SystemPorts(disk=disk)))
    try:
        yield await node.start()
    finally:
        await node.stop()


async def get(address: Address | None, path: str) -> tuple[int, str]:
    assert address is not None
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split(" ")[1]), body


async def scrape(info: NodeAddresses, path: str = FULL) -> dict[str, ParsedFamily]:
    status, body = await get(info.metrics, path)
    assert status == 200
    return parse(body)
