"""A member of a group by the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Strategy: eager, as Kafka's range assignor is. A rebalance takes every partition: the member commits, gives all of them
up and joins again. The member that is elected leader gives each a run of partitions, in the order of member ids.
"""

from typing import Any, Final

from hutong.testing.simulation.clients.connection import REQUEST_TIMEOUT_S, Disconnected
from hutong.testing.simulation.clients.groups.group_consumer import SimGroupMember, is_passing
from hutong.testing.simulation.history_text import Place
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from hutong.wire.kafka.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    encode,
)
from hutong.wire.kafka.error_codes import ErrorCode

_PROTOCOL: Final = "range"
_TYPE: Final = "consumer"


class SimClassicMember(SimGroupMember):
    """Joins again whenever the group rebalances. `generation` is -1 until it is in one."""

    commit_version = 8

    def begin_life(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.beat_interval_s = self.plan.session_ms / 3_000
        self._must_join = True

    async def settle(self) -> bool:
        if self.is_lost:
            # Too late, and it does not know better: real clients commit when they are closed.
            if self.owned and self.random.random() < 0.3:
                await self.commit()
            self.generation = -1
            self._must_join, self.is_lost = True, False
        elif self._must_join and self.owned:
            await self.commit()
        if not self._must_join:
            return True
        self.give_up()
        begun_us = self.now_us
        try:
            places = await self._join()
        except Disconnected:
            places = None
        if places is None:
            # A member that got its id first asks again at once (KIP-394).
            if not self.is_fenced:
                await self.pause()
            return False
        self._must_join = self.is_lost = False
        self.heard()
        self.own(places, begun_us)
        return True

    async def beat(self) -> None:
        generation, begun_us = self.generation, self.now_us
        request = HeartbeatRequest(self.plan.group, generation, self.member_id, self.instance_id)
        error = (await self.ask(request, 4)).error_code
        # The answer to a generation that is over says nothing of this one.
        if generation != self.generation or self._must_join:
            return
        if error:
            self.refused(error)
        else:
            self.confirmed(begun_us, self.owned)

    async def leave(self) -> None:
        identity = MemberIdentity(self.member_id, self.instance_id, "the simulated process ends")
        await self.ask(LeaveGroupRequest(self.plan.group, members=[identity]), 5)

    def refused(self, error: int) -> None:
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.heard()  # the session is renewed all the same
            self._must_join = True
        elif error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.is_lost, self.member_id = True, ""
        elif error == ErrorCode.ILLEGAL_GENERATION:
            self.is_lost = True
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self.is_fenced = True
        else:
            assert is_passing(error), f"the group answers with error {error}"

    async def _join(self) -> list[Place] | None:
        """The partitions of the next generation; None where something has to be asked again. Raises Disconnected."""
        self.generation = -1
        plan = self.plan
        # As in the Java client: a member that joins waits for all others, each of which has the rebalance timeout.
        timeout_s = REQUEST_TIMEOUT_S + plan.rebalance_ms / 1_000
        subscription = encode(ConsumerProtocolSubscription([plan.topic]), 0)
        request = JoinGroupRequest(
            plan.group,
            plan.session_ms,
            plan.rebalance_ms,
            self.member_id,
            self.instance_id,
            _TYPE,
            [JoinGroupRequestProtocol(_PROTOCOL, subscription)],
        )
        joined = await self.ask(request, 9, timeout_s)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            joined = await self.ask(self._named(request), 9, timeout_s)
        if joined.error_code:
            self.refused(joined.error_code)
            return None
        self.member_id = joined.member_id
        sync = SyncGroupRequest(
            plan.group,
            joined.generation_id,
            self.member_id,
            self.instance_id,
            joined.protocol_type,
            joined.protocol_name,
            self._assignments(joined),
        )
        synced = await self.ask(sync, 5, timeout_s)
        if synced.error_code:
            self.refused(synced.error_code)
            return None
        self.generation = joined.generation_id
        assigned = decode_assignment(synced.assignment).assigned_partitions
        return [(each.topic, index) for each in assigned for index in each.partitions]

    def _named(self, request: JoinGroupRequest) -> JoinGroupRequest:
        request.member_id = self.member_id
        return request

    def _assignments(self, joined: Any) -> list[SyncGroupRequestAssignment]:
        """A run of neighbouring partitions for each member, from the leader; nobody else has a say."""
        if joined.leader != joined.member_id or joined.skip_assignment:
            return []
        members = sorted(member.member_id for member in joined.members)
        quota, extra = divmod(self.partitions_total, len(members))
        start, assignments = 0, []
        for place, member_id in enumerate(members):
            end = start + quota + (place < extra)
            part = TopicPartition(self.plan.topic, [*range(start, end)])
            assignments.append(
                SyncGroupRequestAssignment(
                    member_id, encode(ConsumerProtocolAssignment([part] if end > start else []), 0)
                )
            )
            start = end
        return assignments
