"""The end of a simulation: the questions of a client that nobody disturbs, whose answers the checkers compare.

Knows nothing of what the answers should be.
"""

from collections.abc import Callable, Sequence
from typing import Final

from hutong.testing.simulation.clients.admin import SimAdmin, look_at_topic
from hutong.testing.simulation.clients.client import ClientContext, KafkaClient, SimClient
from hutong.testing.simulation.clients.groups.group_consumer import see_all_offsets
from hutong.testing.simulation.clients.groups.share_consumer import SimShareConsumer
from hutong.testing.simulation.clients.groups.share_groups import finish_share_group
from hutong.testing.simulation.clients.keeper import SimKeeper, look_at_group
from hutong.testing.simulation.clients.keyed import SimKeyReader
from hutong.testing.simulation.clients.reader import SimReader
from hutong.testing.simulation.clients.times import SimTimeReader
from hutong.testing.simulation.plan.clients import PlannedMember, PlannedProcessor, PlannedReader, PlannedShareMember
from hutong.testing.simulation.plan.drawing import KEPT_FOR_GOOD_MS
from hutong.testing.simulation.plan.plan import PlannedTopic, SimulationPlan
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from hutong.wire.kafka.apis.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

_LATEST: Final = -1


class FinalQuestions:
    """Of one simulation. `context_for` makes the surroundings of a client of the checker."""

    def __init__(
        self, plan: SimulationPlan, clients: Sequence[SimClient], context_for: Callable[[str], ClientContext]
    ) -> None:
        self._plan = plan
        self._clients = clients
        self._context_for = context_for
        self._partitions = {topic.name: topic.partitions for topic in plan.topics}

    async def reach_everything(self) -> None:
        """Ask each leader of a partition and a coordinator of groups something, until all have answered."""
        client = self._client("progress")
        for topic in self._plan.topics:
            for index in range(topic.partitions):
                asked = ListOffsetsTopic(topic.name, [ListOffsetsPartition(index, -1, _LATEST)])
                request = ListOffsetsRequest(-1, 0, [asked])
                await client.ask_until_done(request, 7, lambda answer: not answer.topics[0].partitions[0].error_code)
        group = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("progress", None, -1, [])])
        await client.ask_until_done(group, 9, lambda answer: not answer.groups[0].error_code)
        client.close()

    async def read_everything(self) -> None:
        """Read all partitions of the plan's topics, at both isolation levels."""
        for topic in self._plan.topics:
            for index in range(topic.partitions):
                await self._read(topic, index)

    async def see_offsets(self) -> None:
        """Ask for the committed offsets of all groups, as an administrator does."""
        groups: dict[tuple[str, str], None] = {}
        for each in self._plan.clients:
            match each:
                case PlannedMember():
                    groups[each.group, each.topic] = None
                case PlannedProcessor():
                    groups[each.group, each.source] = None
        for group, topic in groups:
            await see_all_offsets(self._client("offsets"), group, topic, self._partitions[topic])

    async def look_at_topics(self) -> None:
        """Look at the topics that administrators have left."""
        for client in self._clients:
            for topic in client.topics if isinstance(client, SimAdmin) else ():
                asking = self._client(f"look at {topic}")
                while await look_at_topic(asking, topic) is None:
                    pass

    async def look_at_kept_groups(self) -> None:
        """Look at the groups that administrators have left."""
        for client in self._clients:
            for group, place in client.groups if isinstance(client, SimKeeper) else ():
                asking = self._client(f"look at {group}")
                while not await look_at_group(asking, group, place):
                    pass

    async def look_up_times(self) -> None:
        """Look offsets up by time in the first topic, which loses no record and has no markers."""
        for topic in self._plan.topics[:1]:
            for index in range(topic.partitions):
                context = self._context_for(f"times of {topic.name} {index}")
                plan = PlannedReader(name=context.name, topic=topic.name, partition=index, is_committed=False)
                await SimTimeReader(context, plan).look_up_times()

    async def finish_share_groups(self) -> None:
        """Let a last member of each share group read until nothing is left."""
        for group in self._plan.share_groups:
            name = f"last of {group.name}"
            plan = PlannedShareMember(name=name, topic=group.topic, group=group.name, always_accepts=True)
            member = SimShareConsumer(self._context_for(name), plan)
            await finish_share_group(self._client("standing"), member, group, self._partitions[group.topic])

    async def _read(self, topic: PlannedTopic, index: int) -> None:
        context = self._context_for(f"final {topic.name} {index}")
        plans = [
            PlannedReader(name=context.name, topic=topic.name, partition=index, is_committed=is_committed)
            for is_committed in (False, True)
        ]
        # Of a compacted topic most records may be gone: what matters are its keys.
        if topic.is_compacted:
            keeps_tombstones = ("delete.retention.ms", KEPT_FOR_GOOD_MS) in topic.configs
            await SimKeyReader(context, plans[1]).read_keys(keeps_tombstones=keeps_tombstones)
            return
        for plan in plans:
            await SimReader(context, plan).read_all()

    def _client(self, what: str) -> KafkaClient:
        return KafkaClient(self._context_for(what))
