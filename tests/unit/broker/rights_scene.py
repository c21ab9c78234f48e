"""A node that checks ACLs: an administrator with all rights, and clients with the names that a test gives."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support import every_api
from tests.support.every_api import EMPTY_SHARERS, MEMBER, READERS, SHARERS, TOPIC, TRANSACTION, made
from tests.unit.broker.wire_node import WireClient, client_of, running_node

from hutong.broker.broker import Broker
from hutong.broker.dispatch.dispatcher import Dispatch
from hutong.broker.handling.listeners import Listener, SecurityProtocol
from hutong.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from hutong.security.decisions import Decisions
from hutong.security.principals import USER, Principal
from hutong.server.broker import broker_verticle
from hutong.server.configuration.sections.security import SecuritySettings
from hutong.server.configuration.settings import Settings
from hutong.testing.observe.loopback import Loopback
from hutong.wire.kafka.registry import APIS


class RightsScene:
    """`admin` is a client by the socket, ANONYMOUS and a super user."""

    def __init__(self, broker: Broker, admin: WireClient) -> None:
        self.broker = broker
        self.admin = admin
        listener = Listener("PLAINTEXT", SecurityProtocol.PLAINTEXT, "127.0.0.1", 9092)
        self.dispatch = Dispatch(broker, listener)
        self.topic_ids: dict[str, bytes] = {}

    @property
    def decisions(self) -> Decisions:
        return self.broker.admin.acls.decisions

    def client(self, name: str = "alice") -> Loopback:
        loopback = Loopback(self.dispatch)
        loopback._peer.session.principal = Principal(USER, name)
        return loopback

    def grant(self, *rights: tuple[Operation, ResourceType], name: str = "*", deny: bool = False) -> None:
        """Allow or deny alice something from now on."""
        for acl in acls(rights, name, deny):
            self.decisions.add(acl)

    def revoke(self, *rights: tuple[Operation, ResourceType], name: str = "*", deny: bool = False) -> None:
        for acl in acls(rights, name, deny):
            self.decisions.remove(acl)

    async def ask(self, client: Any, api_key: int, version: int, **fields: Any) -> Any:
        return await client.ask(made(APIS[api_key].request, fields, self.topic_ids), version)

    async def populate(self) -> None:
        """The resources in the samples of `every_api`."""
        admin = self.admin
        await admin.create(TOPIC)
        topic = self.broker.topics.get(TOPIC)
        assert topic is not None
        self.topic_ids[TOPIC] = topic.topic_id
        for message, version in every_api.samples(8, self.topic_ids):
            await admin.ask(message, version)
        await self.ask(
            admin, 22, 4, transactional_id=TRANSACTION, transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1
        )
        joining: dict[str, Any] = {"member_id": MEMBER, "member_epoch": 0, "subscribed_topic_names": [TOPIC]}
        joined = await self.ask(
            admin, 68, 1, group_id=READERS, rebalance_timeout_ms=10_000, topic_partitions=[], **joining
        )
        assert joined.error_code == 0, joined.error_message
        shared = await self.ask(admin, 76, 1, group_id=SHARERS, **joining)
        assert shared.error_code == 0, shared.error_message
        offsets = [{"topic_name": TOPIC, "partitions": [{"partition_index": 0, "start_offset": 0}]}]
        assert (await self.ask(admin, 91, 0, group_id=EMPTY_SHARERS, topics=offsets)).error_code == 0


def acls(rights: Iterable[tuple[Operation, ResourceType]], name: str = "*", deny: bool = False) -> list[Acl]:
    permission = Permission.DENY if deny else Permission.ALLOW
    return [
        Acl(
            kind,
            CLUSTER_NAME if kind is ResourceType.CLUSTER else name,
            PatternType.LITERAL,
            "User:alice",
            "*",
            operation,
            permission,
        )
        for operation, kind in rights
    ]


@asynccontextmanager
async def rights_scene(data_dir: Path, monkeypatch: pytest.MonkeyPatch, **security: Any) -> AsyncIterator[RightsScene]:
    brokers: list[Broker] = []

    def make(**parts: Any) -> Broker:
        brokers.append(Broker(**parts))
        return brokers[-1]

    monkeypatch.setattr(broker_verticle, "Broker", make)
    settings = Settings(security=SecuritySettings(authorize=True, super_users=("User:ANONYMOUS",), **security))
    async with running_node(data_dir, settings) as address, client_of(address) as admin:
        yield RightsScene(brokers[-1], admin)
