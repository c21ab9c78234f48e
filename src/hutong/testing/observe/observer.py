"""Looks into a node and waits for what is to be there: topics, records, groups, offsets. All on the node's loop.

Strategy: every question is a Kafka request. Records are waited for by a fetch, which the node parks until they come. No
request of Kafka's waits for a group or its offsets, so these are asked for again every few milliseconds. Each wait ends
with what was wanted, or with WaitFailed and what there was instead.

Knows nothing of sockets, threads or faults.
"""

import asyncio
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

from hutong.foundation.clock import Clock
from hutong.foundation.errors import ProtocolError, Refused
from hutong.testing.values import (
    Group,
    Headers,
    Member,
    Record,
    Standing,
    Text,
    Topic,
    WaitFailed,
    as_bytes,
    check_state,
    counted,
    header_pairs,
    listed,
)
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from hutong.wire.kafka.apis.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from hutong.wire.kafka.apis.k15_describe_groups import DescribedGroup, DescribeGroupsRequest
from hutong.wire.kafka.apis.k16_list_groups import ListGroupsRequest
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest
from hutong.wire.kafka.batch import records as batches
from hutong.wire.kafka.consumer_protocol import decode_assignment
from hutong.wire.kafka.error_codes import ErrorCode

ASK_AGAIN_S: Final = 0.005
ANSWER_MS_MAX: Final = 30_000  # what a change of topics, or a produce, may take
FETCH_BYTES: Final = 8 * 1024 * 1024
READ_COMMITTED: Final = 1
_EARLIEST, _LATEST = -2, -1
_REPLICAS: Final = 1


class Asking(Protocol):
    """A client of Kafka's: `Loopback` for one node."""

    async def ask(self, request: Any, version: int) -> Any:
        """Return the decoded response. Raises HutongError where there is none."""
        ...


class Observer:
    """Questions to one life of a node, or to a cluster."""

    def __init__(self, loopback: Asking, clock: Clock) -> None:
        self._loopback = loopback
        self._clock = clock

    # -- topics

    async def create(self, topic: Topic) -> None:
        """Raises Refused, with the node's own message."""
        configs = [CreatableTopicConfig(name, str(value)) for name, value in topic.config.items()]
        asked = CreatableTopic(topic.name, topic.partitions, _REPLICAS, [], configs)
        # Fixed versions of all requests: helpers talk to the node of the same package, so nothing is negotiated.
        answer = (await self._loopback.ask(CreateTopicsRequest([asked], ANSWER_MS_MAX), 7)).topics[0]
        _check(answer.error_code, f"cannot create the topic {topic.name}", answer.error_message)

    async def delete(self, name: str) -> None:
        """A topic that is not there is fine. Raises Refused."""
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=ANSWER_MS_MAX)
        answer = (await self._loopback.ask(request, 5)).responses[0]
        # A test's clean-up may run twice.
        if answer.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            _check(answer.error_code, f"cannot delete the topic {name}", answer.error_message)

    async def topics(self) -> dict[str, int]:
        """Names of the topics, except internal ones, and their numbers of partitions."""
        # None asks for all topics; an empty list would ask for none.
        answer = await self._loopback.ask(MetadataRequest(None, allow_auto_topic_creation=False), 9)
        return {topic.name: len(topic.partitions) for topic in answer.topics if not topic.is_internal}

    async def _partitions(self, topic: str, *, creating: bool = False) -> list[int]:
        """None at all where there is no such topic."""
        request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=creating)
        answer = (await self._loopback.ask(request, 9)).topics[0]
        return [] if answer.error_code else sorted(partition.partition_index for partition in answer.partitions)

    # -- records

    async def produce(
        self,
        topic: str,
        values: Sequence[Text],
        *,
        key: Text = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[Record]:
        """Append one record for each value, as one batch; they are durable on return. Raises Refused, WaitFailed."""
        if not values:
            raise ValueError("produce takes at least one value; a tombstone is None")
        # As for a producer: Metadata creates the topic if the node's settings allow it (`topic.auto_create`).
        partitions = await self._partitions(topic, creating=True)
        while not partitions:  # it is being made, or may not be
            if topic not in await self.topics():
                raise await self._no_topic(topic)
            await asyncio.sleep(ASK_AGAIN_S)
            partitions = await self._partitions(topic)
        raw_key = as_bytes(key)
        if partition is None:  # as librdkafka chooses for a key
            partition = partitions[zlib.crc32(raw_key) % len(partitions)] if raw_key is not None else 0
        at_ms = self._clock.wall_ms() if timestamp_ms is None else timestamp_ms
        pairs = header_pairs(headers)
        written = [batches.Record(0, at_ms, raw_key, as_bytes(value), pairs) for value in values]
        batch = memoryview(batches.build_batch(written))
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])
        # acks=-1: the answer comes when the batch is on disk.
        answer = (await self._loopback.ask(ProduceRequest(None, -1, ANSWER_MS_MAX, [data]), 9)).responses[0]
        (landed,) = answer.partition_responses
        _check(landed.error_code, f"cannot produce to {topic}/{partition}", landed.error_message)
        return [
            Record(topic, partition, landed.base_offset + index, at_ms, raw_key, record.value, tuple(pairs))
            for index, record in enumerate(written)
        ]

    async def records(self, topic: str, count: int | None, partition: int | None, timeout_ms: int) -> list[Record]:
        """All records of the topic, partition by partition, once there are at least `count`. Raises WaitFailed."""
        due_ms = self._clock.monotonic_ms() + timeout_ms
        # Without a count the call does not wait, not even for the topic.
        positions = await self._starts(topic, partition, due_ms if count else 0)
        found: list[Record] = []
        while True:
            # A fetch waits for one byte, not for `count` records, so it is repeated for as long as time is left.
            left_ms = due_ms - self._clock.monotonic_ms()
            is_waiting = count is not None and len(found) < count and left_ms > 0
            fetched, is_at_end = await self._fetch(topic, positions, left_ms if is_waiting else 0)
            found += fetched
            # Read to the end in any case: a test that expects 3 records must see the fourth.
            if is_at_end and (not is_waiting or len(found) >= (count or 0)):
                break
        # Partitions are fetched in rotation, so records of one are interleaved with others.
        found.sort(key=lambda record: (record.partition, record.offset))
        if count is not None and len(found) < count:
            where = topic if partition is None else f"{topic}/{partition}"
            there = f"there {'is' if len(found) == 1 else 'are'} {len(found) or 'none'}{':' if found else ''}"
            raise WaitFailed(
                f"{counted(count, 'record')} of {where} did not come within {timeout_ms / 1000:g} s; "
                f"{there}{listed(found)}"
            )
        return found

    async def _starts(self, topic: str, partition: int | None, due_ms: int) -> dict[int, int]:
        while not (partitions := await self._partitions(topic)):
            if self._clock.monotonic_ms() >= due_ms:
                raise await self._no_topic(topic)
            await asyncio.sleep(ASK_AGAIN_S)
        if partition is not None and partition not in partitions:
            raise WaitFailed(f"{topic} has no partition {partition}, it has {len(partitions)}")
        return await self._offsets(topic, partitions if partition is None else [partition], _EARLIEST)

    async def _offsets(self, topic: str, partitions: list[int], timestamp: int) -> dict[int, int]:
        # -1 means the latest offset and -2 the earliest (ListOffsets).
        asked = [ListOffsetsPartition(number, timestamp=timestamp) for number in partitions]
        answer = await self._loopback.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, asked)]), 5)
        for part in answer.topics[0].partitions:
            _check(part.error_code, f"cannot find the ends of {topic}/{part.partition_index}")
        return {part.partition_index: part.offset for part in answer.topics[0].partitions}

    async def _fetch(self, topic: str, positions: dict[int, int], wait_ms: int) -> tuple[list[Record], bool]:
        """Fetch the records after the positions, and advance those; True if that is the end of the log.

        Reads committed records: those in no transaction, or in a committed one.
        """
        asked = [
            FetchPartition(number, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            for number, offset in positions.items()
        ]
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            isolation_level=READ_COMMITTED,
            # No fetch session (KIP-227): each fetch names its own positions.
            session_epoch=-1,
            topics=[FetchTopic(topic, partitions=asked)],
        )
        answer = await self._loopback.ask(request, 12)
        records: list[Record] = []
        is_at_end = True
        for part in answer.responses[0].partitions:
            _check(part.error_code, f"cannot read {topic}/{part.partition_index}")
            position = positions[part.partition_index]
            found, end_offset = _records_in(topic, part)
            # A fetch returns whole batches, so the first may begin before the position.
            records += [record for record in found if record.offset >= position]
            positions[part.partition_index] = max(position, end_offset)
            # The last stable offset, as open transactions hide what follows.
            is_at_end = is_at_end and max(position, end_offset) >= part.last_stable_offset
        return records, is_at_end

    async def _no_topic(self, topic: str) -> WaitFailed:
        there = sorted(await self.topics())
        return WaitFailed(f"there is no topic {topic}; there {'are' if there else 'is none at all'}{listed(there)}")

    # -- groups

    async def groups(self) -> list[str]:
        answer = await self._loopback.ask(ListGroupsRequest(), 3)
        return sorted(group.group_id for group in answer.groups)

    async def group(self, name: str) -> Group:
        # Version 5 describes an unknown group as Dead; from 6 on it is an error (KIP-1043).
        described = (await self._loopback.ask(DescribeGroupsRequest([name]), 5)).groups[0]
        return Group(name, described.group_state, _members_of(described))

    async def wait_for_group(self, name: str, members: int | None, state: str, timeout_ms: int) -> Group:
        """Return the group once it is in that state with that number of members (None: any).

        Raises WaitFailed, and ValueError for a state that no group is ever in.
        """
        check_state(state)
        due_ms = self._clock.monotonic_ms() + timeout_ms
        while True:
            group = await self.group(name)
            # Both from one answer: a rebalance between two questions could make a state fit another number of members.
            if group.state == state and members in (None, len(group.members)):
                return group
            if self._clock.monotonic_ms() >= due_ms:
                break
            await asyncio.sleep(ASK_AGAIN_S)
        wanted = state if members is None else f"{state} with {counted(members, 'member')}"
        others = [other for other in await self.groups() if other != name]
        known = (
            "" if name in await self.groups() else f"\nno such group is known; there are: {', '.join(others) or 'none'}"
        )
        raise WaitFailed(f"group {name} was not {wanted} within {timeout_ms / 1000:g} s; it is {group}{known}")

    async def standings(self, group: str, topic: str) -> list[Standing]:
        """The group's standing in each partition of the topic; empty where there is no such topic."""
        partitions = await self._partitions(topic)
        if not partitions:
            return []
        request = OffsetFetchRequest(group, [OffsetFetchRequestTopic(topic, partitions)])
        answer = await self._loopback.ask(request, 7)
        _check(answer.error_code, f"cannot read the offsets of group {group}")
        committed = {
            part.partition_index: part.committed_offset for found in answer.topics for part in found.partitions
        }
        starts = await self._offsets(topic, partitions, _EARLIEST)
        # Positions first, ends last: a commit between the questions can make the lag too large, never negative.
        ends = await self._offsets(topic, partitions, _LATEST)
        return [
            Standing(number, starts[number], ends[number], at if (at := committed.get(number, -1)) >= 0 else None)
            for number in partitions
        ]

    async def wait_for_lag(self, group: str, topic: str, lag: int, timeout_ms: int) -> list[Standing]:
        """Wait until at most `lag` records of the topic are not committed. Raises WaitFailed."""
        due_ms = self._clock.monotonic_ms() + timeout_ms
        while True:
            standings = await self.standings(group, topic)
            # A topic without partitions does not exist yet: no lag there is no success.
            if standings and sum(standing.lag for standing in standings) <= lag:
                return standings
            if self._clock.monotonic_ms() >= due_ms:
                break
            await asyncio.sleep(ASK_AGAIN_S)
        if not standings:
            raise await self._no_topic(topic)
        raise WaitFailed(
            f"group {group} did not come to a lag of {lag} on {topic} within {timeout_ms / 1000:g} s; "
            f"it lags {counted(sum(standing.lag for standing in standings), 'record')}{listed(standings)}"
            f"\nthe group is {await self.group(group)}"
        )


async def wait_for_hits(count: Callable[[], int], hits: int, timeout_ms: int, clock: Clock) -> None:
    """Return once a fault was met so often. Raises WaitFailed."""
    due_ms = clock.monotonic_ms() + timeout_ms
    while count() < hits:
        if clock.monotonic_ms() >= due_ms:
            struck = counted(count(), "time")
            raise WaitFailed(
                f"the fault was to strike {counted(hits, 'time')} within {timeout_ms / 1000:g} s: {struck}"
            )
        await asyncio.sleep(ASK_AGAIN_S)


def _records_in(topic: str, part: PartitionData) -> tuple[list[Record], int]:
    """The records of a fetch, except those of aborted transactions, and the offset after the last batch."""
    if part.records is None:
        return [], 0
    data = part.records if isinstance(part.records, memoryview) else b"".join(cast("Sequence[Buffer]", part.records))
    begins = sorted((one.first_offset, one.producer_id) for one in part.aborted_transactions or ())
    aborting: set[int] = set()
    records: list[Record] = []
    end_offset = 0
    for header, batch in batches.iterate_batches(memoryview(data)):
        # The batch's own last offset: compaction may have removed the last records, and the next fetch begins after
        # them.
        end_offset = header.last_offset + 1
        # As in Kafka's Fetcher: aborted transactions enter at their first offset and leave at their marker.
        while begins and begins[0][0] < end_offset:
            aborting.add(begins.pop(0)[1])
        if header.is_control:
            aborting.discard(header.producer_id)  # whichever way its transaction ended, it is over
        elif not (header.is_transactional and header.producer_id in aborting):
            records += [
                Record(
                    topic,
                    part.partition_index,
                    found.offset,
                    found.timestamp_ms,
                    found.key,
                    found.value,
                    tuple(found.headers),
                )
                for found in batches.iterate_records(batch)
            ]
    return records, end_offset


def _members_of(described: DescribedGroup) -> tuple[Member, ...]:
    return tuple(
        Member(member.member_id, member.client_id, member.client_host, _assigned(member.member_assignment))
        for member in described.members
    )


def _assigned(assignment: bytes) -> tuple[tuple[str, int], ...]:
    try:
        given = decode_assignment(assignment).assigned_partitions
    except ProtocolError:
        return ()  # a group may well carry something that is not the consumer protocol
    return tuple((entry.topic, number) for entry in given for number in sorted(entry.partitions))


def _check(code: int, what: str, message: str | None = None) -> None:
    if code:
        name = ErrorCode(code).name
        raise Refused(code, f"{what}: {message} ({name})" if message else f"{what}: {name}")
