"""Every named bound of waits that a request can meet is met by a request: it is answered, and the connection goes on.

A table is made full by taking its room away. A new table must be named here, with the request that meets it or with the
reason for which none can.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.share_member import Member
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, fetch_request, running_node

from hutong.broker.handling.node_facts import BrokerSettings
from hutong.foundation.waiting.table import WaitTable
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest
from hutong.wire.kafka.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from hutong.wire.kafka.apis.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.error_codes import ErrorCode

NOW_MS = 1_700_000_000_000
THROTTLE_MS = BrokerSettings().fetch_throttle_ms
Meet = Callable[[WireClient], Awaitable[list[Any]]]


async def make_by_metadata(client: WireClient) -> list[Any]:
    answer = await client.ask(MetadataRequest([MetadataRequestTopic(name="new")], True), 8)
    return [topic.error_code for topic in answer.topics]


async def make_topics(client: WireClient) -> list[Any]:
    answer = await client.ask(CreateTopicsRequest([CreatableTopic("one", 1, 1), CreatableTopic("two", 1, 1)]), 7)
    return [topic.error_code for topic in answer.topics]


async def ask_for_producer_id(client: WireClient) -> list[Any]:
    return [(await client.ask(InitProducerIdRequest(None, 1_000), 4)).error_code]


async def begin_transactions(client: WireClient) -> list[Any]:
    return [(await client.ask(InitProducerIdRequest("ann", 1_000), 4)).error_code]


async def fetch_and_wait(client: WireClient) -> list[Any]:
    answer = await client.ask(fetch_request(1, max_wait_ms=60_000), 12)
    return [answer.error_code, answer.throttle_time_ms]


async def fetch_old_records(client: WireClient) -> list[Any]:
    answer = await client.ask(fetch_request(0), 12)
    return [answer.error_code, answer.throttle_time_ms]


async def join_group(client: WireClient) -> list[Any]:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    request = JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", protocols, "")
    return [(await client.ask(request, 9)).error_code]


async def join_consumer_group(client: WireClient) -> list[Any]:
    request = ConsumerGroupHeartbeatRequest("g", "m", 0, None, None, 1_000, ["t"], None, None, [])
    return [(await client.ask(request, 1)).error_code]


async def join_streams_group(client: WireClient) -> list[Any]:
    topology = Topology(0, [Subtopology("0", ["t"])])
    request = StreamsGroupHeartbeatRequest("app", "m", 0, 0, None, None, 1_000, topology, [], [], [], "p")
    return [(await client.ask(request, 0)).error_code]


async def begin_share_session(client: WireClient) -> list[Any]:
    member = Member(client, "ann")
    assert (await member.beat(0, "t")).error_code == 0
    return [(await member.fetch(partitions=True)).error_code]


async def share_fetch_and_wait(client: WireClient) -> list[Any]:
    member = Member(client, "ann")
    await member.begin("t")
    return [(await member.fetch(max_wait_ms=60_000)).error_code]


async def produce_what_unpacks_to_much(client: WireClient) -> list[Any]:
    packed = batch_of(bytes(1 << 18), timestamp_ms=NOW_MS, compression=Compression.GZIP)
    return [(await client.produce(packed)).error_code]


UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
BUSY = ErrorCode.THROTTLING_QUOTA_EXCEEDED
MEETINGS: list[tuple[str, Meet, list[int]]] = [
    ("topic_creations", make_by_metadata, [ErrorCode.LEADER_NOT_AVAILABLE]),
    ("topic_creations", make_topics, [BUSY, BUSY]),
    ("producer_ids", ask_for_producer_id, [UNAVAILABLE]),
    ("producer_ids", begin_transactions, [UNAVAILABLE]),
    ("transaction waits", begin_transactions, [UNAVAILABLE]),
    ("examined_produces", produce_what_unpacks_to_much, [ErrorCode.KAFKA_STORAGE_ERROR]),
    ("fetches", fetch_and_wait, [0, THROTTLE_MS]),
    ("cold_reads", fetch_old_records, [0, THROTTLE_MS]),
    ("group waits", join_group, [UNAVAILABLE]),
    ("consumer group waits", join_consumer_group, [UNAVAILABLE]),
    ("streams group waits", join_streams_group, [UNAVAILABLE]),
    ("share_sessions", begin_share_session, [ErrorCode.SHARE_SESSION_LIMIT_REACHED]),
    ("share_fetches", share_fetch_and_wait, [0]),
]
NOT_MET_HERE = {
    "long_requests": "one wait for each connection, and connections are fewer",
    "held_producers": "one wait for each connection, and connections are fewer",
    "throttled": "one wait for each connection, and connections are fewer",
    "authentications": "one wait for each connection, and connections are fewer",
    "failed_authentications": "one wait for each connection, and connections are fewer",
    "authenticated_sessions": "one wait for each connection, and connections are fewer",
    "slowed_guesses": "one wait for each connection, and connections are fewer",
    "password_checks": "met by tests/unit/broker/authentication/test_authentication.py",
    "transaction changes": "met by tests/unit/transactions",
    "transactional offsets": "met by tests/unit/groups/offsets/test_transactional.py",
    "topics that the controller creates": "in a cluster alone",
    "drain_waiters_max": "who stops the node waits there, no client",
}


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> list[WaitTable[Any]]:
    """Every table that is made from now on."""
    made: list[WaitTable[Any]] = []
    begin = WaitTable.__init__

    def noted(table: WaitTable[Any], *arguments: Any, **options: Any) -> None:
        begin(table, *arguments, **options)
        made.append(table)

    monkeypatch.setattr(WaitTable, "__init__", noted)
    return made


@pytest.mark.parametrize(("name", "meet", "answered"), MEETINGS, ids=[f"{m[0]}-{m[1].__name__}" for m in MEETINGS])
def test_a_request_that_meets_the_bound_is_answered(
    tmp_path: Path, tables: list[WaitTable[Any]], name: str, meet: Meet, answered: list[int]
) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as address, client_of(address) as client:
            await client.create("t")
            assert (await client.produce(batch_of(b"a", timestamp_ms=NOW_MS))).error_code == 0
        async with running_node(tmp_path) as address, client_of(address) as client:
            table = [each for each in tables if each.name == name][-1]  # of this life of the node
            room, table._capacity = table._capacity, 0
            assert await meet(client) == answered
            table._capacity = room
            assert (await client.ask(MetadataRequest([MetadataRequestTopic(name="new")], True), 8)).topics[
                0
            ].error_code == 0, "the same connection goes on, and nothing of the refused request is left"

    asyncio.run(scenario())


def test_every_bound_is_known_here(tmp_path: Path, tables: list[WaitTable[Any]]) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path):
            assert {table.name for table in tables} == {name for name, _, _ in MEETINGS} | NOT_MET_HERE.keys()

    asyncio.run(scenario())
