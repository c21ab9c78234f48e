"""Share groups at the beginning and at the end of a simulation: their settings, and the rest of their records."""

from collections.abc import Mapping
from typing import Final

from hutong.testing.simulation.clients.client import KafkaClient
from hutong.testing.simulation.clients.connection import Disconnected
from hutong.testing.simulation.clients.groups.share_consumer import SimShareConsumer
from hutong.testing.simulation.history import ShareGroupRead
from hutong.testing.simulation.plan.plan import PlannedShareGroup
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from hutong.wire.kafka.apis.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from hutong.wire.kafka.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from hutong.wire.kafka.apis.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)

FINISH_S_MAX: Final = 100
"""Longer than any lock and than any session: both may have to end before the last member gets a record."""
_GROUP: Final = 32
_SET: Final = 0
_LATEST: Final = -1
_ATTEMPTS_MAX: Final = 30
_SECOND_US: Final = 1_000_000
Standing = dict[int, tuple[int, int]]


async def configure_share_group(admin: KafkaClient, plan: PlannedShareGroup) -> None:
    """Set what the plan says, and let the group begin with the first record."""
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": str(plan.lock_ms),
        "share.delivery.count.limit": str(plan.delivery_limit),
    }
    # A group need not exist to have settings.
    configs = [AlterableConfig(name, _SET, value) for name, value in settings.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(_GROUP, plan.name, configs)])
    await admin.ask_until_done(request, 1, lambda answer: answer.responses[0].error_code == 0)
    if not admin.routes.is_alone:
        await _known_by_all(admin, plan.name, settings)


async def _known_by_all(admin: KafkaClient, group: str, settings: Mapping[str, str]) -> None:
    """Wait until each node that answers knows the settings: one that does not would let the group begin elsewhere.

    A node that is down knows them before it serves.
    """
    request = DescribeConfigsRequest([DescribeConfigsResource(_GROUP, group, list(settings))])
    for address in admin.context.nodes:
        for _ in range(_ATTEMPTS_MAX):
            try:
                answer = await admin.ask_node(address, request, 4)
            except Disconnected:
                await admin.pause()
                continue
            if {each.name: each.value for each in answer.results[0].configs} == settings:
                break
            await admin.pause()


async def finish_share_group(
    admin: KafkaClient, member: SimShareConsumer, plan: PlannedShareGroup, partitions: int
) -> None:
    """Let one member read until nothing is left, or too long; adds a `ShareGroupRead` for each partition."""
    ends_us = admin.now_us + FINISH_S_MAX * _SECOND_US
    standing = await _standing(admin, plan, partitions)
    while admin.now_us < ends_us and any(start < end for start, end in standing.values()):
        await member.work_once()
        standing = await _standing(admin, plan, partitions)
    for index, (start, end) in standing.items():
        admin.history.add(ShareGroupRead(plan.name, (plan.topic, index), start, end, plan.delivery_limit))
    await member.leave()


async def _standing(admin: KafkaClient, plan: PlannedShareGroup, partitions: int) -> Standing:
    """The group's start offset in each partition, and the end of the partition; (-1, 0) without an answer."""
    indexes = list(range(partitions))
    asked = DescribeShareGroupOffsetsRequestGroup(
        plan.name, [DescribeShareGroupOffsetsRequestTopic(plan.topic, indexes)]
    )
    try:
        described = await admin.ask(DescribeShareGroupOffsetsRequest([asked]), 0)
        ends = await _ends(admin, plan.topic, indexes)
    except Disconnected:
        await admin.pause()
        return dict.fromkeys(indexes, (-1, 0))
    # The coordinator, or a leader, has moved: the next question finds it.
    if described.groups[0].error_code or ends is None:
        await admin.pause()
        return dict.fromkeys(indexes, (-1, 0))
    found = [part for topic in described.groups[0].topics for part in topic.partitions]
    starts = {part.partition_index: part.start_offset for part in found}
    return {index: (starts.get(index, -1), ends[index]) for index in indexes}


async def _ends(admin: KafkaClient, topic: str, indexes: list[int]) -> dict[int, int] | None:
    """The ends of partitions, None where a leader does not say. Raises Disconnected."""
    # A node alone has all of them; leaders of a cluster have one each.
    questions = [indexes] if admin.routes.is_alone else [[index] for index in indexes]
    ends: dict[int, int] = {}
    for asked in questions:
        parts = [ListOffsetsPartition(index, -1, _LATEST) for index in asked]
        answer = await admin.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, parts)]), 7)
        for part in answer.topics[0].partitions:
            if part.error_code:
                return None
            ends[part.partition_index] = part.offset
    return ends
