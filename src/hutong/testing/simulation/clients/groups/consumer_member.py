"""A member of a group by the protocol of KIP-848: one kind of heartbeat, and partitions that the broker assigns.

Strategy: answers to heartbeats set the target; the round of reads moves towards it. Partitions that are not in the
target are committed and given up first, and the next heartbeat says so. After an answer that did not arrive the member
says everything again, as the coordinator may have said what is not known here.
"""

import asyncio

from hutong.testing.simulation.clients.client import ClientContext
from hutong.testing.simulation.clients.connection import Disconnected
from hutong.testing.simulation.clients.groups.group_consumer import SimGroupMember, is_passing
from hutong.testing.simulation.history_text import Place
from hutong.testing.simulation.plan.clients import PlannedMember
from hutong.wire.kafka.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from hutong.wire.kafka.apis.shared import TopicIdPartitions
from hutong.wire.kafka.error_codes import ErrorCode

JOINING = 0
LEAVING = -1
LEAVING_FOR_A_WHILE = -2


class SimConsumerMember(SimGroupMember):
    """Makes its member id up (KIP-1082), a new one for each life."""

    commit_version = 9

    def __init__(self, context: ClientContext, plan: PlannedMember) -> None:
        super().__init__(context, plan)
        self._target: tuple[Place, ...] = ()
        self._target_begun_us = 0
        self._said: tuple[Place, ...] = ()
        self._must_say_all = True
        self._noted = JOINING  # the epoch that the history has
        self._beating = asyncio.Lock()

    def begin_life(self) -> None:
        self.member_id = f"{self.name}-{self.random.getrandbits(64):016x}"
        self.beat_interval_s = 0.5
        self._begin_anew()

    async def settle(self) -> bool:
        if self.is_lost:
            # Too late, and it does not know better: real clients commit when they are closed.
            if self.owned and self.random.random() < 0.3:
                await self.commit()
            self.give_up()
            self.is_lost = False
            self._begin_anew()
        if self.generation == JOINING:
            try:
                await self.beat()
            except Disconnected:
                await self.pause()
            return False
        return await self._reconcile()

    async def beat(self) -> None:
        # One at a time: the coordinator compares each with what it answered to the one before.
        async with self._beating:
            epoch, owned, begun_us = self.generation, self.owned, self.now_us
            try:
                response = await self.ask(self._heartbeat(owned), 1)
            except Disconnected:
                self._must_say_all = True
                raise
            # The answer to a membership that is over says nothing of this one.
            if epoch != self.generation:
                return
            if response.error_code:
                self._must_say_all = True
                self.refused(response.error_code)
                # A member that was removed may join again at once.
                if epoch == JOINING or not self.is_lost:
                    await self.pause()
                return
            self._accepted(response, owned, begun_us)

    async def leave(self) -> None:
        epoch = LEAVING
        if self.instance_id is not None and self.random.random() < 0.5:
            epoch = LEAVING_FOR_A_WHILE
        if self.generation > JOINING:
            await self.ask(ConsumerGroupHeartbeatRequest(self.plan.group, self.member_id, epoch, self.instance_id), 1)

    def refused(self, error: int) -> None:
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND):
            self.is_lost = True
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self.is_fenced = True
        # The next heartbeat brings the epoch.
        elif error != ErrorCode.STALE_MEMBER_EPOCH:
            assert is_passing(error), f"the group answers with error {error}"

    def _begin_anew(self) -> None:
        self.generation = self._noted = JOINING
        self._target = self._said = ()
        self._must_say_all = True

    def _heartbeat(self, owned: tuple[Place, ...]) -> ConsumerGroupHeartbeatRequest:
        plan = self.plan
        request = ConsumerGroupHeartbeatRequest(plan.group, self.member_id, self.generation, self.instance_id)
        if self._must_say_all:
            request.rebalance_timeout_ms = plan.rebalance_ms
            request.subscribed_topic_names = [plan.topic]
        if self._must_say_all or owned != self._said:
            indexes = [index for _, index in owned]
            request.topic_partitions = [TopicIdPartitions(self.topic_id, indexes)] if indexes else []
        return request

    def _accepted(self, response: ConsumerGroupHeartbeatResponse, owned: tuple[Place, ...], begun_us: int) -> None:
        self._must_say_all, self._said = False, owned
        self.generation = response.member_epoch
        self.beat_interval_s = response.heartbeat_interval_ms / 1_000
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            self._target = tuple((self.plan.topic, index) for each in topics for index in each.partitions)
            self._target_begun_us = begun_us
        self.confirmed(begun_us, [place for place in self.owned if place in self._target])

    async def _reconcile(self) -> bool:
        """Take a step towards the target. True while it has nothing to give up."""
        if any(place not in self._target for place in self.owned):
            await self.commit()
            if self.is_lost or self.is_fenced:
                return False
            # The target may be another one by now.
            self.own([place for place in self.owned if place in self._target], self._target_begun_us)
            try:
                await self.beat()
            except Disconnected:
                await self.pause()
            return False
        if self._noted != self.generation or len(self.owned) != len(self._target):
            self._noted = self.generation
            self.own(self._target, self._target_begun_us)
        return True
