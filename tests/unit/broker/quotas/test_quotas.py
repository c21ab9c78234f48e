"""Client quotas: what may be set, which of them counts, how long who goes over must wait, and that they wait."""

import dataclasses
import math
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, fetch_request, running_node

from hutong.broker.quotas.book import QuotaBook
from hutong.broker.quotas.entities import FETCH, PRODUCE, REQUEST, Entity, check_quota, entity_from, entity_of, text_of
from hutong.foundation.buckets import THROTTLE_MS_MAX, Buckets
from hutong.foundation.errors import Refused
from hutong.server.configuration.sections.network import QuotaSettings
from hutong.server.configuration.settings import Settings
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest
from hutong.wire.kafka.apis.k48_describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from hutong.wire.kafka.apis.k49_alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from hutong.wire.kafka.apis.shared import EntityData
from hutong.wire.kafka.error_codes import ErrorCode

WINDOW_MS = 10_000
Named = Sequence[tuple[str, str | None]]


# -- buckets


def test_within_the_rate_nobody_waits_whatever_the_window() -> None:
    buckets = Buckets(WINDOW_MS)
    assert all(buckets.use("key", 100, 100, second * 1000) == 0 for second in range(60))


def test_a_window_may_be_used_at_once_and_what_is_over_is_waited_for() -> None:
    buckets = Buckets(WINDOW_MS)
    assert buckets.use("key", 100, 1000, 0) == 0
    assert buckets.use("key", 100, 50, 0) == 500
    assert buckets.use("other", 100, 50, 0) == 0
    assert buckets.use("key", 100, 0, 500) == 0  # the debt is paid
    assert buckets.use("key", 100, 1, 500) == 10


def test_a_wait_has_an_end() -> None:
    assert Buckets(WINDOW_MS).use("key", 1, 1e18, 0) == THROTTLE_MS_MAX


def test_another_rate_counts_at_once() -> None:
    buckets = Buckets(WINDOW_MS)
    buckets.use("key", 100, 1100, 0)
    assert buckets.use("key", 10_000, 0, 0) == 1000  # a second's worth was owed, and still is


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5000), st.integers(0, 2000)), max_size=200))
@example([(1, 479, 0), (0, 423, 314), (10, 375, 457), (9, 372, 0), (7, 294, 0), (8, 375, 0), (5, 219, 801),
          (6, 175, 1236), (3, 61, 260), (4, 65, 605), (1, 88, 2), (2, 28, 884), (0, 0, 0)])  # fmt: skip
def test_buckets_stay_few_and_use_stays_within_the_rate(steps: list[tuple[int, int, int]]) -> None:
    """A client that waits as asked uses at most a window's worth beyond the rate, and one request."""
    buckets, now_ms, used, free_at, since_ms = Buckets(WINDOW_MS, buckets_max=10), 0, 0, 0, 0
    for name, amount, pause_ms in steps:
        now_ms += pause_ms
        buckets.use(("other", name), 100, amount, now_ms)
        # A full table drops the oldest bucket, and its debt: the client begins anew.
        if "key" not in buckets._buckets:
            used, since_ms = 0, now_ms
        if now_ms >= free_at and len(buckets) < 10:
            assert used <= 100 * WINDOW_MS / 1000 + 100 * (now_ms - since_ms) / 1000 + 1
            used += amount
            free_at = now_ms + buckets.use("key", 100, amount, now_ms)
        buckets.check_invariants()


# -- entities and the book


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [("team", "a")],
        [("user", "")],
        [("user", "x" * 1025)],
        [("ip", "192.0.2.1"), ("user", "a")],
        [("ip", "somewhere")],
    ],
)
def test_what_is_no_entity(parts: list[tuple[str, str | None]]) -> None:
    with pytest.raises(Refused) as refused:
        entity_of(parts)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("key", "value"),
    [("speed", 1), (PRODUCE, 0), (PRODUCE, -1), (PRODUCE, 1.5), (FETCH, 1e300), (REQUEST, math.nan), (REQUEST, 0),
     ("connection_creation_rate", 1)],
)  # fmt: skip
def test_what_is_no_quota(key: str, value: float) -> None:
    with pytest.raises(Refused):
        check_quota(entity_of([("user", "a")]), key, value)


def test_an_entity_is_the_same_in_any_order_and_as_text() -> None:
    parts: list[tuple[str, str | None]] = [("user", "a"), ("client-id", None)]
    entity = entity_of(parts)
    assert entity == entity_of(parts[::-1]) == entity_from(text_of(entity))


class Instant:
    """A log on which everything is durable at once; `records` is what it holds."""

    def __init__(self) -> None:
        self.records: dict[bytes, bytes | None] = {}

    def append(self, key: bytes, value: bytes | None, then: Any) -> None:
        self.records[key] = value
        then(None)


def book_with(*quotas: tuple[Named, float]) -> QuotaBook:
    book = QuotaBook()
    book.start(Instant())
    for parts, value in quotas:
        book.alter(entity_of(parts), {PRODUCE: value}, lambda error: None)
    return book


LADDER: list[tuple[Named, tuple[str, str]]] = [  # from the most specific; who shares the quota with (u, c)
    ([("user", "u"), ("client-id", "c")], ("u", "c")),
    ([("user", "u"), ("client-id", None)], ("u", "c")),
    ([("user", "u")], ("u", "")),
    ([("user", None), ("client-id", "c")], ("u", "c")),
    ([("user", None), ("client-id", None)], ("u", "c")),
    ([("user", None)], ("u", "")),
    ([("client-id", "c")], ("", "c")),
    ([("client-id", None)], ("", "c")),
]


@pytest.mark.parametrize("first", range(len(LADDER)))
def test_the_most_specific_quota_counts(first: int) -> None:
    book = book_with(*((parts, 1 + rung) for rung, (parts, _) in list(enumerate(LADDER))[first:]))
    assert book.quota_for(PRODUCE, "u", "c") == (1 + first, LADDER[first][1])
    assert book.quota_for(FETCH, "u", "c") is None


def test_quotas_come_back_from_the_log() -> None:
    log, book = Instant(), QuotaBook()
    book.start(log)
    entity: Entity = entity_of([("user", "ü"), ("client-id", None)])
    book.alter(entity, {PRODUCE: 5.0, REQUEST: 0.5}, lambda error: None)
    book.alter(entity, {PRODUCE: None}, lambda error: None)
    book.alter(entity_of([("ip", None)]), {"connection_creation_rate": 5.0}, lambda error: None)
    again = QuotaBook()
    for key, value in log.records.items():
        again.replay(key, value)
    assert again.all == book.all == {entity: {REQUEST: 0.5}, (("ip", None),): {"connection_creation_rate": 5.0}}
    assert again.is_in_force
    book.alter(entity, {REQUEST: None}, lambda error: None)
    assert not book.is_in_force  # the one of an address is not metered


# -- on the wire


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[WireClient]:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t")
        yield client


async def alter(client: WireClient, parts: Named, validate_only: bool = False, **quotas: float | None) -> int:
    entity = [EntityData(kind, name) for kind, name in parts]
    changes = [OpData(key, value or 0, value is None) for key, value in quotas.items()]
    answer = await client.ask(AlterClientQuotasRequest([EntryData(entity, changes)], validate_only), 1)
    assert [(part.entity_type, part.entity_name) for part in answer.entries[0].entity] == list(parts)
    return int(answer.entries[0].error_code)


async def described(client: WireClient, *components: ComponentData, strict: bool = False) -> Any:
    answer = await client.ask(DescribeClientQuotasRequest(list(components), strict), 1)
    if answer.error_code:
        return answer.error_code
    return [
        ({part.entity_type: part.entity_name for part in entry.entity}, {v.key: v.value for v in entry.values})
        for entry in answer.entries
    ]


async def test_quotas_are_set_described_and_removed(client: WireClient) -> None:
    assert await alter(client, [("user", "a")], producer_byte_rate=1000) == 0
    assert await alter(client, [("user", "a"), ("client-id", "c")], request_percentage=0.5) == 0
    assert await alter(client, [("user", None)], consumer_byte_rate=7) == 0
    assert await alter(client, [("user", "b")], validate_only=True, consumer_byte_rate=7) == 0
    assert await alter(client, [("user", "b")], speed=7) == ErrorCode.INVALID_REQUEST
    user_a = ({"user": "a"}, {"producer_byte_rate": 1000.0})
    both = ({"user": "a", "client-id": "c"}, {"request_percentage": 0.5})
    default = ({"user": None}, {"consumer_byte_rate": 7.0})
    assert await described(client) == [user_a, both, default]
    assert await described(client, ComponentData("user", 0, "a")) == [user_a, both]
    assert await described(client, ComponentData("user", 0, "a"), strict=True) == [user_a]
    assert await described(client, ComponentData("user", 1, None)) == [default]
    assert await described(client, ComponentData("user", 2, None), strict=True) == [user_a, default]
    assert await described(client, ComponentData("client-id", 2, None)) == [both]
    assert await alter(client, [("user", "a")], producer_byte_rate=None) == 0
    assert await described(client) == [both, default]


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([ComponentData("user", 0, None)], ErrorCode.INVALID_REQUEST),
        ([ComponentData("user", 1, "a")], ErrorCode.INVALID_REQUEST),
        ([ComponentData("user", 9, "a")], ErrorCode.INVALID_REQUEST),
        ([ComponentData("", 0, "a")], ErrorCode.INVALID_REQUEST),
        ([ComponentData("team", 0, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([ComponentData("user", 0, "a"), ComponentData("user", 2, None)], ErrorCode.INVALID_REQUEST),
        ([ComponentData("user", 2, None), ComponentData("ip", 2, None)], ErrorCode.INVALID_REQUEST),
    ],
)
async def test_filters_that_are_none(client: WireClient, components: list[ComponentData], code: int) -> None:
    assert await described(client, *components) == code


async def test_an_entity_is_named_once(client: WireClient) -> None:
    twice = [EntryData([EntityData("user", "a")], [OpData(PRODUCE, 1.0)])] * 2
    (entry,) = (await client.ask(AlterClientQuotasRequest(twice), 1)).entries
    assert entry.error_code == ErrorCode.INVALID_REQUEST


def produce_request(batch: bytes, acks: int = 1) -> ProduceRequest:
    part = PartitionProduceData(0, memoryview(batch))
    return ProduceRequest(None, acks, 1000, [TopicProduceData("t", partition_data=[part])])


async def test_a_producer_over_its_quota_is_told_and_made_to_wait(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client, client_of(address) as other:
        await client.create("t")
        large, small = batch_of(b"x" * 11_000, timestamp_ms=0), batch_of(b"x", timestamp_ms=0)
        for _ in range(3):  # so that there is a lane
            assert (await client.ask(produce_request(small), 9)).throttle_time_ms == 0
        assert await alter(other, [("client-id", "test")], producer_byte_rate=1000) == 0
        assert (await client.ask(produce_request(small), 9)).throttle_time_ms == 0
        answer = await client.ask(produce_request(large), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert answer.throttle_time_ms > 0
        client.send(MetadataRequest([]), 9)  # it is held, while others are served
        await other.ask(MetadataRequest([]), 9)
        assert await alter(other, [("client-id", "test")], producer_byte_rate=None) == 0
        assert (await client.receive(3, 9)).cluster_id
        assert (await client.ask(produce_request(large), 9)).throttle_time_ms == 0


async def test_a_consumer_over_its_quota_gets_what_a_window_allows(tmp_path: Path) -> None:
    settings = dataclasses.replace(Settings(), quota=QuotaSettings(window_num=2))
    async with running_node(tmp_path, settings) as address, client_of(address) as client:
        await client.create("t")
        batch = batch_of(b"x" * 600, timestamp_ms=0)
        for _ in range(8):
            await client.produce(batch)
        await alter(client, [("client-id", None)], consumer_byte_rate=1000)
        answer = await client.ask(fetch_request(0), 12)
        assert len(answer.responses[0].partitions[0].records) in (len(batch), 2 * len(batch))
        waits = [answer.throttle_time_ms]
        waits.append((await client.ask(fetch_request(2), 12)).throttle_time_ms)
        assert max(waits) > 0


async def test_a_client_that_takes_too_much_of_the_loop_is_made_to_wait(tmp_path: Path) -> None:
    settings = dataclasses.replace(Settings(), quota=QuotaSettings(window_num=2))
    async with running_node(tmp_path, settings) as address, client_of(address) as client:
        await alter(client, [("user", "ANONYMOUS")], request_percentage=0.1)
        for _ in range(10_000):
            if (await client.ask(MetadataRequest(None), 9)).throttle_time_ms:
                return
        pytest.fail("nobody waits")


async def test_what_is_never_answered_is_metered_too(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t")
        await client.produce(batch_of(b"x", timestamp_ms=0))
        await alter(client, [("client-id", "test")], producer_byte_rate=1000)
        client.send(produce_request(batch_of(b"x" * 10_100, timestamp_ms=0), acks=0), 9)
        answer = await client.ask(produce_request(batch_of(b"x" * 50, timestamp_ms=0)), 9)
        assert answer.responses[0].partition_responses[0].base_offset == 2
