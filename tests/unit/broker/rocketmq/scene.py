"""A whole node for RocketMQ's clients, and a client of our own remoting."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from ssl import SSLContext
from typing import Any

import msgspec
from tests.support.waiting import turning_until
from tests.unit.broker.wire_node import WireClient, client_of, opened_node

from hutong import remoting
from hutong.remoting.channels.channel import Channel
from hutong.remoting.front import RemotingConnection
from hutong.server.configuration.sections.rocketmq import RocketMqSettings
from hutong.server.configuration.settings import Address, Settings
from hutong.testing import EmbeddedCluster
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from hutong.wire.rocketmq.bodies import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from hutong.wire.rocketmq.codes import RequestCode, ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.messages import StoredMessage, decode_messages

GROUP = "g"
TIMEOUT_S = 30
EARLIEST, LATEST = -2, -1  # timestamps of Kafka's ListOffsets


class RocketClient:
    """One connection. `asked` has the requests of the node."""

    def __init__(self, connection: RemotingConnection, asked: list[Command]) -> None:
        self.connection = connection
        self.asked = asked

    async def ask(self, code: int, body: bytes = b"", **fields: object) -> Command:
        return await self.ask_with(code, fields, body)

    async def ask_with(self, code: int, fields: Mapping[str, object], body: bytes = b"") -> Command:
        texts = {name: str(value) for name, value in fields.items()}
        return await self.connection.invoke(Command(code, fields=texts, body=body), TIMEOUT_S)

    async def send(self, body: bytes, topic: str = "t", **fields: object) -> Command:
        given = {
            "producerGroup": "p", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": 1, "queueId": 0,
            "sysFlag": 0, "bornTimestamp": 1_000, "flag": 0, "properties": "", "reconsumeTimes": 0, **fields,
        }  # fmt: skip
        return await self.ask_with(RequestCode.SEND_MESSAGE, given, body)

    async def pull(self, offset: int = 0, topic: str = "t", **fields: object) -> Command:
        given = {
            "consumerGroup": GROUP, "topic": topic, "queueId": 0, "queueOffset": offset, "maxMsgNums": 32,
            "sysFlag": 0, "commitOffset": 0, "suspendTimeoutMillis": 20_000, "subVersion": 0, **fields,
        }  # fmt: skip
        return await self.ask_with(RequestCode.PULL_MESSAGE, given)

    async def messages(self, offset: int = 0, topic: str = "t", **fields: object) -> list[StoredMessage]:
        answer = await self.pull(offset, topic, **fields)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return [*decode_messages(answer.body)]

    async def heartbeat(
        self, client_id: str, *groups: str, expression: str = "*", producers: tuple[str, ...] = (), **more: Any
    ) -> Command:
        subscriptions = [SubscriptionData("t", expression)]
        consumers = [ConsumerData(group, subscriptionDataSet=subscriptions, **more) for group in groups]
        data = HeartbeatData(client_id, [ProducerData(each) for each in producers], consumers)
        return await self.ask(RequestCode.HEART_BEAT, msgspec.json.encode(data))


@asynccontextmanager
async def rocketmq_client(address: Address, tls: SSLContext | None = None) -> AsyncIterator[RocketClient]:
    asked: list[Command] = []

    def note(command: Command, _channel: Channel) -> None:
        asked.append(command)

    processors = {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: note, 39: note}
    async with remoting.connect(str(address), processors, tls=tls) as connection:
        yield RocketClient(connection, asked)


class RocketScene:
    """A running node. `kafka` speaks Kafka's protocol with it."""

    def __init__(self, address: Address, kafka: WireClient) -> None:
        self.address = address
        self.kafka = kafka


@asynccontextmanager
async def rocketmq_node(
    folder: Path, rocketmq: RocketMqSettings | None = None, **settings: Any
) -> AsyncIterator[RocketScene]:
    section = rocketmq or RocketMqSettings(listen=Address("127.0.0.1", 0))
    async with (
        opened_node(folder, replace(Settings(**settings), rocketmq=section)) as addresses,
        client_of(addresses.kafka) as kafka,
    ):
        assert addresses.rocketmq is not None
        yield RocketScene(addresses.rocketmq, kafka)


async def offsets_of(scene: RocketScene, topic: str, partition: int) -> tuple[int, int]:
    """Where a partition begins and ends, also one of the node's own topics."""
    asked = [
        ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=timestamp)])
        for timestamp in (EARLIEST, LATEST)
    ]
    answers = [await scene.kafka.ask(ListOffsetsRequest(topics=[each]), 4) for each in asked]
    start, end = (answer.topics[0].partitions[0].offset for answer in answers)
    return start, end


async def until_asked(client: RocketClient, count: int) -> list[Command]:
    """Wait until the node has asked so often."""
    await turning_until(lambda: len(client.asked) >= count)
    return client.asked


class PatientClient(RocketClient):
    """One that asks again while no node serves what it wants, as clients do: leaders of a young cluster still move."""

    async def ask_with(self, code: int, fields: Mapping[str, object], body: bytes = b"") -> Command:
        while (answer := await super().ask_with(code, fields, body)).code == ResponseCode.SERVICE_NOT_AVAILABLE:
            pass
        return answer


@asynccontextmanager
async def client_of_node(cluster: EmbeddedCluster, node: int) -> AsyncIterator[PatientClient]:
    host, port = (cluster.node(node).rocketmq or "").split(":")
    async with rocketmq_client(Address(host, int(port))) as client:
        yield PatientClient(client.connection, client.asked)
