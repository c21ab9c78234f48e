"""A whole node in this process, and a client that says exactly what a test wants said."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hutong.journal.files.disk import Disk
from hutong.server.broker.broker_part import BrokerPart
from hutong.server.broker.system_ports import SystemPorts
from hutong.server.composition import NodeAddresses
from hutong.server.configuration.sections.network import KafkaSettings
from hutong.server.configuration.sections.node import NodeSettings
from hutong.server.configuration.settings import Address, Settings
from hutong.server.serving import node_of
from hutong.wire.kafka.apis.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest
from hutong.wire.kafka.batch.records import Record, build_batch
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.headers import decode_response_header, encode_request_frame
from hutong.wire.kafka.schema import message_info


class WireClient:
    """One connection; `ask` sends one request and returns its decoded response."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation_id = 0

    def send(self, request: Any, version: int) -> None:
        self._correlation_id += 1
        self.writer.writelines(encode_request_frame(request, version, self._correlation_id, "test"))

    async def receive(self, api_key: int, version: int) -> Any:
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        frame = await self.reader.readexactly(size)
        _, offset = decode_response_header(frame, api_key, version)
        return codecs.decode_response(api_key, version, frame, offset)

    async def ask(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return await self.receive(message_info(type(request)).api_key, version)

    async def is_closed(self) -> bool:
        """True if the node has closed the connection, after waiting for bytes of it."""
        return await self.reader.read(1) == b""

    async def create(self, name: str, partitions: int = 1, **overrides: str) -> None:
        configs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in overrides.items()]
        response = await self.ask(CreateTopicsRequest([CreatableTopic(name, partitions, 1, [], configs)]), 7)
        assert response.topics[0].error_code == 0, response.topics[0].error_message

    async def delete(self, name: str) -> None:
        response = await self.ask(DeleteTopicsRequest(topic_names=[name]), 5)
        assert response.responses[0].error_code == 0

    async def produce(
        self, batch: bytes | None, topic: str = "t", *, acks: int = 1, version: int = 9, partition: int = 0
    ) -> PartitionProduceResponse:
        records = None if batch is None else memoryview(batch)
        request = ProduceRequest(
            None, acks, 1000, [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, records)])]
        )
        response = await self.ask(request, version)
        answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return answer

    async def fetch(
        self,
        offset: int,
        topic: str = "t",
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        version: int = 12,
    ) -> PartitionData:
        response = await self.ask(fetch_request(offset, topic, max_wait_ms, min_bytes, max_bytes), version)
        assert response.error_code == 0
        answer: PartitionData = response.responses[0].partitions[0]
        return answer


def fetch_request(
    offset: int, topic: str = "t", max_wait_ms: int = 0, min_bytes: int = 1, max_bytes: int = 1 << 20
) -> FetchRequest:
    asked = FetchTopic(
        topic, partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)]
    )
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=[asked])


def batch_of(*values: bytes, timestamp_ms: int, **options: Any) -> bytes:
    return build_batch([Record(timestamp_ms=timestamp_ms, value=value) for value in values], **options)


@asynccontextmanager
async def running_node(
    data_dir: Path, settings: Settings | None = None, disk: Disk | None = None
) -> AsyncIterator[Address]:
    async with opened_node(data_dir, settings, disk) as addresses:
        yield addresses.kafka


@asynccontextmanager
async def opened_node(
    data_dir: Path, settings: Settings | None = None, disk: Disk | None = None
) -> AsyncIterator[NodeAddresses]:
    settings = dataclasses.replace(
        settings or Settings(),
        node=NodeSettings(data_dir=data_dir),
        kafka=KafkaSettings(listen=Address("127.0.0.1", 0)),
    )
    node = node_of(BrokerPart(settings, ports=None if disk is None else SystemPorts(disk=disk)))
    try:
        yield await node.start()
    finally:
        await node.stop()


@asynccontextmanager
async def client_of(address: Address, host: str | None = None) -> AsyncIterator[WireClient]:
    """A client at this address of the machine's own, which is any of 127.0.0.0/8."""
    local = None if host is None else (host, 0)
    reader, writer = await asyncio.open_connection(address.host, address.port, local_addr=local)
    try:
        yield WireClient(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()
