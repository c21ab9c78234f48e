"""One streams group (KIP-1071): events in, instructions out.

Strategy: epochs, targets and steps are those of every group in which the broker assigns (`assigned/core.py`); what a
member is given are tasks. The first member brings the topology, which says which tasks there are once all its topics
are there (`topics.py`). Until then members are in the group without tasks, and each answer says what is missing.

The first members of a group wait for others a short time, since state that is restored in vain costs more than that.

Knows nothing of sockets, clocks, disks or committed offsets. All time-outs are deadlines compared on `Tick`.
"""

from typing import Final

from hutong.foundation.errors import Refused
from hutong.groups.assigned.checks import check_epoch, check_room
from hutong.groups.assigned.messages import (
    JOINING,
    NO_TIMEOUT,
    RecordKind,
)
from hutong.groups.assigned.states import AssignedGroupState
from hutong.groups.consumer.assignment.catalogue import TopicCatalogue
from hutong.groups.streams.core import StreamsGroupCore
from hutong.groups.streams.endpoints import endpoints_of
from hutong.groups.streams.member import StreamsMember
from hutong.groups.streams.messages import (
    Holding,
    StoredStreamsGroup,
    StreamsGroupDescription,
    StreamsHeartbeat,
    StreamsReply,
)
from hutong.groups.streams.settings import StreamsGroupSettings, StreamsRules
from hutong.groups.streams.topics import Status, StatusCode
from hutong.wire.kafka.error_codes import ErrorCode

# A member that waits for its first tasks asks again soon: what it waits for takes less than a second. Kafka's members
# wait for a whole interval.
WAITING_INTERVAL_MS: Final = 500
_NO_TASKS: frozenset[Holding] = frozenset()


class StreamsGroup(StreamsGroupCore):
    """One group. `times` may be replaced at any time: they count from the next heartbeat on."""

    __slots__ = ()

    @classmethod
    def restored(
        cls,
        group_id: str,
        catalogue: TopicCatalogue,
        settings: StreamsGroupSettings,
        rules: StreamsRules,
        stored: StoredStreamsGroup,
        now_ms: int,
    ) -> "StreamsGroup":
        """The group of its records. Members have one session time-out to send a heartbeat."""
        group = cls(group_id, catalogue, settings, rules)
        group.epoch, group.assignment_epoch = stored.epoch, stored.assignment_epoch
        group.topology, group.assigned_standbys = stored.topology, stored.standby_replicas
        # Members are stored with the topology that the first of them brought; without it they have to join again.
        for member_id, stored_member in (stored.members if stored.topology is not None else {}).items():
            member = StreamsMember.restored(member_id, stored_member, stored.currents.get(member_id))
            group.restore_member(member, stored.targets.get(member_id, _NO_TASKS), now_ms)
        group.end_restoring()
        # The stored hash names the topics of the last epoch. If topics changed while the node was down, a new epoch
        # begins.
        group.believe(stored.metadata_hash)
        return group

    def describe(self) -> StreamsGroupDescription:
        return StreamsGroupDescription(
            group_id=self.group_id,
            state=self.state.value,
            epoch=self.epoch,
            assignment_epoch=self.assignment_epoch,
            topology=self.topology,
            partition_counts=self.configured.partition_counts,
            members=tuple(
                member.describe(self.targets.get(member.member_id, _NO_TASKS)) for member in self.members.values()
            ),
        )

    # ---- events

    def handle_request(self, beat: StreamsHeartbeat) -> None:
        try:
            # Negative epochs leave the group: there are no static members, who would come back (as in Kafka 4.3).
            reply = self._leave(beat) if beat.epoch < 0 else self._keep(beat)
        except Refused as refused:
            reply = StreamsReply(ErrorCode(refused.code), refused.message)
        self.answer(beat.ticket, reply)

    # ---- members that come and stay

    def _keep(self, beat: StreamsHeartbeat) -> StreamsReply:
        """A member comes, comes back or stays."""
        known = self._find(beat)
        self._check_owned(beat)
        is_first, was_empty = not self.assignment_epoch, not self.members
        brings_topology = self._take_topology(beat)
        member = known
        if member is None:
            member = StreamsMember(beat.member_id)
            self.admit(member)
        had = set(member.assigned)
        self.renew(member, beat.now_ms)
        self._update_declaration(member, beat)
        if known is None or brings_topology or self.standbys_changed:
            if was_empty:
                # The next start of the application is not to be ended by the last one's fault.
                self.shutdown_by = None
                self._wait_for_others(is_first, beat.now_ms)
            self.begin_epoch(f"{member.member_id} has changed the group", beat.now_ms)
        else:
            self.assign(beat.now_ms)
        # At most one step for each heartbeat: the next one depends on what the client confirms.
        self.reconcile(member, beat.owned, beat.now_ms)
        self.shutdown_by = member.member_id if beat.shuts_down else self.shutdown_by
        has_news = had != member.assigned.keys()
        # What clients with endpoints have decides where others send their queries.
        self.endpoint_epoch += has_news and member.endpoint is not None
        # A client that joins gets everything; so does one that has lost a reply, and so has other tasks than its own.
        has_others = beat.owned is not None and beat.owned != member.assigned.keys()
        return self._reply(member, beat, is_news=has_news or has_others or beat.epoch == JOINING)

    def _find(self, beat: StreamsHeartbeat) -> StreamsMember | None:
        """The member of a heartbeat, None for a new one. Raises Refused."""
        known = self.members.get(beat.member_id)
        if known is None and beat.epoch != JOINING:
            raise Refused(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {beat.member_id} is not a member of group {self.group_id}."
            )
        if known is None:
            check_room(self.members, self._settings.members_max, "streams")
        elif beat.epoch >= 0:
            check_epoch(known, beat.epoch, beat.owned, "streams")
            # The locks of its tasks are those of its process, and a member lives in one.
            if beat.process_id not in (None, known.process_id):
                raise Refused(ErrorCode.INVALID_REQUEST, "The process id of a member must not change.")
        return known

    def _check_owned(self, beat: StreamsHeartbeat) -> None:
        """Raises Refused for a task that the topology does not have."""
        # While topics are missing, members still give up what they had before.
        if not self.configured.is_ready:
            return
        for _, subtopology, index in beat.owned or ():
            count = self.configured.task_counts.get(subtopology)
            if count is None:
                message = f"Subtopology {subtopology[:100]} does not exist in the topology."
                raise Refused(ErrorCode.INVALID_REQUEST, message)
            if not 0 <= index < count:
                message = (
                    f"Task {index} for subtopology {subtopology[:100]} is invalid. Number of tasks for this "
                    f"subtopology: {count}"
                )
                raise Refused(ErrorCode.INVALID_REQUEST, message)

    def _take_topology(self, beat: StreamsHeartbeat) -> bool:
        """Take over the topology of the first member. False if the group has it. Raises Refused."""
        if beat.topology is None:
            return False
        # A group without members is that of an application that is being replaced, maybe by another version of it.
        if self.topology is None or (not self.members and self.topology != beat.topology):
            self.topology = beat.topology
            self.touch(RecordKind.TOPOLOGY)
            return True
        # Answers say so to an older one. A newer one has to wait until the last member of this one has left.
        if self.topology.epoch <= beat.topology.epoch and self.topology != beat.topology:
            raise Refused(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return False

    def _update_declaration(self, member: StreamsMember, beat: StreamsHeartbeat) -> None:
        """Store the member's declaration. Absent fields are unchanged, to keep heartbeats small."""
        before = member.declaration()
        if beat.rack_id is not None:
            member.rack_id = beat.rack_id
        if beat.rebalance_timeout_ms != NO_TIMEOUT:
            member.rebalance_timeout_ms = beat.rebalance_timeout_ms
        # Said by a member that joins, maybe again and with another version of the application.
        if beat.topology is not None:
            member.topology_epoch = beat.topology.epoch
        if beat.process_id is not None:
            member.process_id = beat.process_id
        if beat.endpoint is not None:
            member.endpoint = beat.endpoint
        if beat.client_tags is not None:
            member.client_tags = beat.client_tags
        member.client_id, member.client_host = beat.client_id, beat.client_host
        if before != member.declaration():
            self.touch(RecordKind.MEMBER, member.member_id)

    def _wait_for_others(self, is_first: bool, now_ms: int) -> None:
        """Compute the first target a little later, so that members that start together are assigned together."""
        if self.times.initial_rebalance_delay_ms <= 0:
            return
        # A client takes epoch 0 for "not a member": until the first target there is an empty one, of epoch 1.
        if is_first:
            self.epoch, self.assignment_epoch = 1, 1
            self.touch(RecordKind.TARGET_EPOCH)
        self._assign_after_ms = now_ms + self.times.initial_rebalance_delay_ms

    # ---- answers

    def _reply(self, member: StreamsMember, beat: StreamsHeartbeat, *, is_news: bool) -> StreamsReply:
        problem = self.configured.problem
        may_pass_soon = problem is None or problem.code is StatusCode.MISSING_INTERNAL_TOPICS
        waits = not member.assigned and may_pass_soon and not (problem is None and member.is_at(self.epoch))
        interval_ms = self.times.heartbeat_interval_ms
        return StreamsReply(
            ErrorCode.NONE,
            member_id=member.member_id,
            epoch=member.epoch,
            heartbeat_interval_ms=min(interval_ms, WAITING_INTERVAL_MS) if waits else interval_ms,
            assignment=frozenset(member.assigned) if is_news else None,
            status=self._status_of(member),
            to_create=self.configured.to_create,
            endpoint_epoch=self.endpoint_epoch,
            endpoints=endpoints_of(self) if self.endpoint_epoch != beat.endpoint_epoch else None,
        )

    def _status_of(self, member: StreamsMember) -> tuple[Status, ...]:
        found = []
        assert self.topology is not None, "the first member has brought it"
        if member.topology_epoch < self.topology.epoch:
            detail = (
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                f"{self.topology.epoch}."
            )
            found.append(Status(StatusCode.STALE_TOPOLOGY, detail))
        if self.configured.problem is not None:
            found.append(self.configured.problem)
        # Missing topics are the better reason for an empty answer than the delay.
        elif self.state is AssignedGroupState.ASSIGNING:
            detail = "Assignment delayed, since more members may join or leave at this moment."
            found.append(Status(StatusCode.ASSIGNMENT_DELAYED, detail))
        if self.shutdown_by is not None:
            detail = (
                f"Streams group member {self.shutdown_by} encountered a fatal error and requested a shutdown for the "
                "entire application."
            )
            found.append(Status(StatusCode.SHUTDOWN_APPLICATION, detail))
        return tuple(found)

    # ---- leaving

    def _leave(self, beat: StreamsHeartbeat) -> StreamsReply:
        known = self._find(beat)
        assert known is not None, "who leaves is never made a member"
        # A client that ends by a fault of the application says so when it leaves.
        self.shutdown_by = beat.member_id if beat.shuts_down else self.shutdown_by
        self.drop(known)
        self.begin_epoch(f"{known.member_id} left", beat.now_ms)
        return StreamsReply(ErrorCode.NONE, member_id=beat.member_id, epoch=beat.epoch)
