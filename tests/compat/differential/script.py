"""The script: which requests are sent, in which order, from one seed.

Strategy: two sources, mixed. *Loose* requests have any API, any version and pool values in every field. *Stories* are
short lives (a topic, a producer, a group, a transaction) whose requests are sound, so that the states behind the first
error code are reached; now and then one field of a story's request is replaced by a loose one.
"""

import dataclasses
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, TypeAlias

from tests.compat.differential import values
from tests.compat.differential.values import GROUPS, SYMBOL_BASE, TOPICS, TRANSACTIONAL_IDS, topic_id

from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest
from hutong.wire.kafka.batch.records import Record, build_batch
from hutong.wire.kafka.registry import APIS
from hutong.wire.kafka.schema import rows_of

Step: TypeAlias = tuple[Any, int]
"""A request and its version."""

DANGEROUS: Final = frozenset({7, 27, 57, 64, 80, 81})
"""Requests of brokers and administrators that would end, downgrade or corrupt the node under test."""
WAITING: Final = frozenset({68, 76, 77, 78, 79, 88, 89, 90, 91, 92})
"""Protocols whose answers depend on background work of the server: compared by tests of their own."""
MUTATION_CHANCE: Final = 0.12


def steps(seed: int, count: int, keys: frozenset[int]) -> Iterator[Step]:
    """`count` requests of the APIs in `keys`, the same for the same seed."""
    random = Random(seed)
    usable = sorted(keys & APIS.keys() - DANGEROUS - WAITING)
    stories = [story for story, needed in STORIES if needed <= set(usable)]
    sent = 0
    while sent < count:
        if random.random() < 0.6:
            batch = iter([_loose(random, random.choice(usable))])
        else:
            batch = random.choice(stories)(random, sent)
        for message, version in batch:
            yield message, version
            sent += 1


def _loose(random: Random, key: int) -> Step:
    api = APIS[key]
    version = random.choice(api.versions)
    return values.fill(api.request, version, random), version


def _step(message: Any, random: Random) -> Step:
    """A sound request in any version, or nearly sound."""
    api = APIS[type(message).__message__.api_key]
    version = random.choice(api.versions)
    if random.random() < MUTATION_CHANCE:
        carried = [(name, row) for name, row in rows_of(type(message)) if version in row.versions]
        name, row = random.choice(carried)
        object.__setattr__(message, name, values.value_of(name, row, version, random))
    return message, version


def _produce(random: Random, topic: str, batch: bytes, transactional_id: str | None = None) -> Step:
    data = TopicProduceData(topic, topic_id(topic), [PartitionProduceData(0, memoryview(batch))])
    return _step(ProduceRequest(transactional_id, -1, 5000, [data]), random)


def _fetch(random: Random, topic: str, offset: int, isolation_level: int = 0) -> Step:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=isolation_level,
        session_epoch=-1,
        topics=[FetchTopic(topic, topic_id(topic), [partition])],
    )
    return _step(request, random)


def records_in_and_out(random: Random, _first: int) -> Iterator[Step]:
    """Plain records, then a look at them from several offsets."""
    topic = random.choice(TOPICS[:3])
    yield _produce(random, topic, values.plain_batch(random, random.choice([1, 3])))
    yield _fetch(random, topic, random.choice([0, 1, 2]))
    asked = [ListOffsetsPartition(0, -1, random.choice([-1, -2, values.NOW_MS]))]
    yield _step(ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, asked)]), random)


def idempotent_producer(random: Random, first: int) -> Iterator[Step]:
    """Sequences in order, repeated, with a gap, of an old epoch."""
    producer = SYMBOL_BASE + first
    yield InitProducerIdRequest(None, 60_000), random.choice(APIS[22].versions)
    topic, sequence = random.choice(TOPICS[:3]), 0
    for _ in range(random.choice([2, 4, 7])):
        epoch = random.choice([0, 0, 0, 0, 1])
        sent = random.choice([sequence, sequence, sequence, sequence, max(0, sequence - 1), sequence + 5])
        record = Record(timestamp_ms=values.NOW_MS, value=b"%d" % sent)
        yield _produce(
            random, topic, build_batch([record], producer_id=producer, producer_epoch=epoch, base_sequence=sent)
        )
        sequence += sent == sequence


def classic_group(random: Random, first: int) -> Iterator[Step]:
    """One member joins, syncs, is heard, and may leave."""
    group = random.choice(GROUPS)
    member = f"@member-{first}"
    protocols = [JoinGroupRequestProtocol("range", values.POOLS["metadata"][1])]
    for member_id in ("", member):
        join = JoinGroupRequest(group, 6_000, 300, member_id, None, "consumer", protocols)
        yield join, random.choice(range(1, 10) if member_id else range(4, 10))
    for generation in (1, 2, 3):
        assigned = [SyncGroupRequestAssignment(member, b"\0\1\0\0\0\0\xff\xff\xff\xff")]
        yield _step(SyncGroupRequest(group, generation, member, None, "consumer", "range", assigned), random)
        yield _step(HeartbeatRequest(group, generation, member), random)
    if random.random() < 0.8:
        leave = APIS[13].request(group_id=group, member_id=member)
        yield leave, random.choice([0, 1, 2])


def transaction(random: Random, first: int) -> Iterator[Step]:
    """A transactional producer: begins, adds, produces, ends; sometimes twice, sometimes not at all."""
    transactional_id = random.choice(TRANSACTIONAL_IDS)
    producer = SYMBOL_BASE + first
    yield InitProducerIdRequest(transactional_id, 60_000), random.choice(APIS[22].versions)
    topic = random.choice(TOPICS[:3])
    add = APIS[24].request(
        **_carried(
            24,
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer,
            v3_and_below_producer_epoch=0,
        )
    )
    yield add, random.choice([0, 1, 2, 3])
    record = Record(timestamp_ms=values.NOW_MS, value=b"transacted")
    batch = build_batch([record], producer_id=producer, producer_epoch=0, base_sequence=0, attributes=1 << 4)
    yield _produce(random, topic, batch, transactional_id)
    yield _fetch(random, topic, 0, isolation_level=1)
    for _ in range(random.choice([1, 1, 2])):
        end = APIS[26].request(transactional_id, producer, 0, random.random() < 0.5)
        yield end, random.choice([0, 1, 2, 3, 4])
    yield _fetch(random, topic, 0, isolation_level=1)


def _carried(key: int, **fields: Any) -> dict[str, Any]:
    """Those fields that the request of that API has."""
    known = {field.name for field in dataclasses.fields(APIS[key].request)}
    return {name: value for name, value in fields.items() if name in known}


STORIES: Final[list[tuple[Callable[[Random, int], Iterator[Step]], frozenset[int]]]] = [
    (records_in_and_out, frozenset({0, 1, 2})),
    (idempotent_producer, frozenset({0, 22})),
    (classic_group, frozenset({11, 12, 13, 14})),
    (transaction, frozenset({22, 24, 26})),
]
