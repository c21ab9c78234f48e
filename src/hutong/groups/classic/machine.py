"""One consumer group under the classic protocol: events in, instructions out.

Strategy: every wait of the protocol is one of two barriers. JoinGroup requests wait at the *join barrier* until all
known members have joined or the rebalance timeout has passed; SyncGroup requests wait until the leader's assignment is
durable. All time-outs are deadlines compared on `Tick`: the driver keeps one timer per group for the earliest of them.
A lease (session deadline) that is renewed does not move that timer; it fires early once, and the group says when next.

Semantics are Kafka's (GroupMetadataManager of 4.x; KIP-345 static members, KIP-394 member ids, KIP-559 protocol checks,
KIP-814 skipped assignments), so that clients written against Kafka's corner cases find them here.

Knows nothing of sockets, clocks, disks or committed offsets. Static members and the second half of a rebalance are in
modules of their own (`static_members.py`, `syncing.py`), as functions of the group.
"""

from hutong.foundation.machine import Tick
from hutong.groups.classic import static_members, syncing
from hutong.groups.classic.core import ClassicGroupCore, because
from hutong.groups.classic.membership.admission import may_keep_generation, refusal, refused
from hutong.groups.classic.messages import (
    ClassicGroupDescription,
    Event,
    GroupPersisted,
    GroupPersistFailed,
    HandOver,
    Instruction,
    Join,
    JoinReply,
    Lapse,
    LeaveGroup,
    Leaver,
    LeaveReply,
    Rejoin,
    Retire,
    Sync,
)
from hutong.groups.classic.records import GroupRecord
from hutong.groups.classic.snapshots import describe_members, member_from
from hutong.groups.classic.states import GroupState
from hutong.groups.settings import GroupSettings
from hutong.wire.kafka.error_codes import ErrorCode


class ClassicGroup(ClassicGroupCore):
    """One group. Durable state (`GroupRecord`) changes only when it was persisted, or in `restored`."""

    __slots__ = ()

    @classmethod
    def restored(cls, group_id: str, settings: GroupSettings, record: GroupRecord, now_ms: int) -> "ClassicGroup":
        """The group of its last record. Members have one session time-out to send a heartbeat."""
        group = cls(group_id, settings)
        group.generation_id = record.generation_id
        group.protocol_type = record.protocol_type
        for stored in record.members:
            member = member_from(stored, record.protocol_name or "")
            group.member_table.add(member)
            # The time that the node was down does not count: members could not send heartbeats.
            group.leases.renew(member, now_ms)
        if record.members:
            group.state = GroupState.STABLE
            group.protocol_name = record.protocol_name
            # The table elects the eldest member by default. The stored leader computed this assignment, and watches
            # topics.
            if record.leader_id in group.member_table.members:
                group.member_table.leader_id = record.leader_id
        group.assignment_bytes = sum(len(member.assignment) for member in group.member_table.members.values())
        return group

    # ---- questions

    def next_tick_ms(self) -> int | None:
        """The time at which a `Tick` is due, or None while nothing can expire. May be early, never late."""
        join_deadline_ms = self._barrier.deadline_ms if self._barrier is not None else None
        deadlines = (join_deadline_ms, self._sync_deadline_ms, self.leases.next_tick_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int, now_ms: int) -> ErrorCode:
        """Renew a lease. REBALANCE_IN_PROGRESS is how members learn that they have to join again."""
        error = self.check_member(member_id, group_instance_id, generation_id)
        if error is not ErrorCode.NONE:
            return error
        self.leases.renew(self.member_table.members[member_id], now_ms)
        # The session is renewed all the same: the member is alive, it only has to join again.
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def check_transactional_commit(
        self, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """Check a commit in a transaction. Producers before KIP-447 send no member id and no generation."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        # Without a member id and a generation there is nothing to check (KIP-447 added both to TxnOffsetCommit version
        # 3).
        if generation_id < 0 and (self.state is GroupState.EMPTY or (not member_id and group_instance_id is None)):
            return ErrorCode.NONE
        return self.check_member(member_id, group_instance_id, generation_id)

    def check_commit(self, member_id: str, group_instance_id: str | None, generation_id: int, now_ms: int) -> ErrorCode:
        """Check a commit. It renews the member's session, as a heartbeat does."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE  # an administrator, or a consumer that assigns its partitions itself
        # A group with members takes no commit without a generation: it would overwrite the positions of live members.
        if generation_id < 0 and not member_id and group_instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self.check_member(member_id, group_instance_id, generation_id)
        if error is not ErrorCode.NONE:
            return error
        # The partitions may be another member's in this generation. Kafka answers so, too; the client commits again
        # after its sync.
        if self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self.leases.renew(self.member_table.members[member_id], now_ms)
        return ErrorCode.NONE

    def describe(self) -> ClassicGroupDescription:
        agreed_protocol = self.protocol_name if self.state is GroupState.STABLE else None
        return ClassicGroupDescription(
            group_id=self.group_id,
            state=self.state.value,
            protocol_type=self.protocol_type,
            protocol_name=agreed_protocol or "",
            members=describe_members(self.member_table, agreed_protocol),
        )

    def subscriptions(self) -> list[bytes]:
        """Every member's metadata, to be decoded by `groups.subscription`."""
        return [
            member.metadata_for(self.protocol_name or member.protocols[0][0])
            for member in self.member_table.members.values()
            if member.protocols
        ]

    # ---- events

    def handle(self, event: Event) -> list[Instruction]:
        match event:
            case Join():
                self._join(event)
            case Sync():
                syncing.sync(self, event)
            case LeaveGroup():
                self._leave(event)
            case Tick(now_ms):
                self._tick(now_ms)
            case Lapse():
                self._lapse(event)
            case GroupPersisted(cause, now_ms):
                syncing.persisted(self, cause, now_ms)
            case GroupPersistFailed():
                syncing.persist_failed(self, event)
            case Rejoin(reason, now_ms):
                self.rebalance(reason, now_ms)
            case Retire() | HandOver():
                self._end(event)
        out, self._out = self._out, []
        return out

    def _lapse(self, event: Lapse) -> None:
        if event.member_id in self.member_table.pending:
            self.leases.await_use(event.member_id, event.now_ms)
            self._tick(event.now_ms)

    def _end(self, event: Retire | HandOver) -> None:
        if isinstance(event, Retire):
            self.enter(GroupState.DEAD)
            return
        # The new kind of group has this group's members and epoch. A request that waits here would never be answered.
        assert self.snapshot() is not None, "somebody waits for an answer of this group"
        self.state = GroupState.DEAD

    # ---- joining

    def _join(self, join: Join) -> None:
        error = refusal(join, self.state, self.member_table, self.protocol_type, self._settings)
        if error is not ErrorCode.NONE:
            self.answer(
                join.ticket, refused(error, join.member_id, has_protocols=bool(join.protocol_type and join.protocols))
            )
        elif join.member_id:
            self._rejoin(join)
        elif join.group_instance_id is not None:
            static_members.join_static(self, join, join.group_instance_id)
        # The order matters: static members need no id handed out first, since their instance id already tells retries
        # apart.
        elif join.requires_known_member_id:
            self._hand_out_member_id(join)
        else:
            self.admit(join, join.new_member_id)

    def _hand_out_member_id(self, join: Join) -> None:
        """KIP-394: a client that cannot receive its id must not become a member, or retries would pile members up."""
        # Kafka keeps such an id for the session time-out. The client chooses that, and uses its id at once, so less is
        # enough.
        timeout_ms = min(join.session_timeout_ms, self._settings.pending_member_timeout_ms)
        self.leases.await_use(join.new_member_id, join.now_ms + timeout_ms)
        self.answer(join.ticket, JoinReply(ErrorCode.MEMBER_ID_REQUIRED, join.new_member_id))

    def _rejoin(self, join: Join) -> None:
        # The second JoinGroup of KIP-394: the client received its id, and becomes a member.
        if join.member_id in self.member_table.pending:
            self.admit(join, join.member_id)
            return
        member = self.member_table.members[join.member_id]
        if may_keep_generation(join, self.state, self.member_table, member):
            # The response of this generation was lost on its way, or a follower looks for changes: say it again.
            self.leases.renew(member, join.now_ms)
            self.answer(join.ticket, self.generation_reply(member))
            return
        # The leader joins again, or a member changed its protocols: both need a new assignment.
        self.update_member(member, join)
        self.rebalance(f"{member.member_id} rejoined{because(join.reason)}", join.now_ms)

    # ---- leaving and lapsing

    def _leave(self, leave: LeaveGroup) -> None:
        # Only the loss of a member needs a rebalance. An id that was never used, or an unknown one, changes no
        # assignment.
        count_before = len(self.member_table.members)
        errors = tuple(self._dismiss(leaver) for leaver in leave.leavers)
        self.answer(leave.ticket, LeaveReply(errors))
        named = ", ".join(f"{each.member_id or each.group_instance_id}{because(each.reason)}" for each in leave.leavers)
        self._departed(count_before, f"{named} left", leave.now_ms)

    def _dismiss(self, leaver: Leaver) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        # A client may leave before it used the id that it was given.
        if self.member_table.pending.pop(leaver.member_id, None) is not None:
            return ErrorCode.NONE
        member_id = leaver.member_id
        # An administrator names static members by instance id alone (KIP-345, removeMembersFromConsumerGroup).
        if not member_id and leaver.group_instance_id is not None:
            member_id = self.member_table.static_ids.get(leaver.group_instance_id, "")
        error = self.member_table.validate(member_id, leaver.group_instance_id)
        if error is ErrorCode.NONE:
            self.drop(self.member_table.members[member_id])
        return error

    def _tick(self, now_ms: int) -> None:
        # Sessions come first: a member that fell silent must not hold up the barrier that may close in this tick.
        if self.leases.next_tick_ms is not None and self.leases.next_tick_ms <= now_ms:
            self._expel_silent(now_ms)
        barrier = self._barrier
        if (
            barrier is not None
            and barrier.deadline_ms <= now_ms
            # The first barrier of a group is prolonged while members still arrive, up to their rebalance time-out.
            and not barrier.extend(now_ms, self._settings.initial_rebalance_delay_ms)
        ):
            self._close_barrier(barrier, now_ms)
        if self._sync_deadline_ms is not None and self._sync_deadline_ms <= now_ms:
            self._expel_unsynced(now_ms)

    def _expel_silent(self, now_ms: int) -> None:
        count_before = len(self.member_table.members)
        expelled = self.leases.lapse(now_ms)
        for member in expelled:
            self.drop(member)
        named = ", ".join(member.member_id for member in expelled)
        # One rebalance for all of them, however many fell silent together.
        self._departed(count_before, f"{named} fell silent", now_ms)

    def _expel_unsynced(self, now_ms: int) -> None:
        """A member that joined but never asks for its assignment would keep its partitions from being read."""
        expelled = sorted(self.unsynced)
        count_before = len(self.member_table.members)
        for member_id in expelled:
            self.drop(self.member_table.members[member_id])
        self._departed(count_before, f"{', '.join(expelled)} did not sync", now_ms)

    def _departed(self, count_before: int, reason: str, now_ms: int) -> None:
        if self._barrier is not None:
            # Somebody less to wait for, be it only a handed-out id that nobody came back with.
            self._close_barrier_if_complete(self._barrier, now_ms)
        elif len(self.member_table.members) < count_before:
            self.rebalance(reason, now_ms)

    def check_invariants(self) -> None:
        """Assert the conditions that are true between any two events; tests call it after each."""
        self.member_table.check_invariants()
        self.leases.check_invariants()
        members = self.member_table.members.values()
        is_preparing = self.state is GroupState.PREPARING_REBALANCE
        if self.state in (GroupState.EMPTY, GroupState.DEAD):
            assert not members
        else:
            assert members or (is_preparing and self.member_table.pending)
        assert (self._barrier is not None) == is_preparing
        assert (self._sync_deadline_ms is not None) == bool(self.unsynced)
        assert self.unsynced <= self.member_table.members.keys()
        if self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert all(any(name == self.protocol_name for name, _ in member.protocols) for member in members)
        assert self.proposed is None or self.state is GroupState.COMPLETING_REBALANCE
        for member in members:
            assert member.sync_ticket is None or self.state is GroupState.COMPLETING_REBALANCE
            assert member.join_ticket is None or is_preparing or member.join_ticket in self.replacing
