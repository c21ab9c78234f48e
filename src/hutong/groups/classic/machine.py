"""One consumer group under the classic protocol: events in, instructions out.

Strategy: every wait of the protocol is one of two barriers. JoinGroup requests wait at the *join barrier* until all
known members are there or the rebalance timeout has passed; SyncGroup requests wait until the leader's assignment is
durable. All time-outs are deadlines compared on `Tick`: the driver keeps one timer per group for the earliest of them.
A lease (session deadline) that is renewed does not move that timer; it fires early once, and the group says when next.

Semantics are Kafka's (GroupMetadataManager of 4.x; KIP-345 static members, KIP-394 member ids, KIP-559 protocol checks,
KIP-814 skipped assignments), so that clients written against Kafka's corner cases find them here.

Knows nothing of sockets, clocks, disks or committed offsets. Static members and the second half of a rebalance are in
modules of their own (`static_members.py`, `syncing.py`), as functions of the group.
"""

from hutong.foundation.machine import Answer, Tick
from hutong.groups.classic import static_members, syncing
from hutong.groups.classic.membership.admission import may_keep_generation, refusal, refused
from hutong.groups.classic.membership.join_barrier import JoinBarrier
from hutong.groups.classic.membership.member_table import ClassicMember, MemberTable
from hutong.groups.classic.membership.session_leases import SessionLeases
from hutong.groups.classic.messages import (
    ClassicGroupDescription,
    Emptied,
    Event,
    GroupPersisted,
    GroupPersistFailed,
    GroupRecord,
    HandOver,
    Instruction,
    Join,
    JoinReply,
    Lapse,
    LeaveGroup,
    Leaver,
    LeaveReply,
    PersistGroup,
    Rebalancing,
    Retire,
    Sync,
    SyncReply,
)
from hutong.groups.classic.snapshots import describe_members, member_from, metadata_for_leader, record_of
from hutong.groups.classic.states import TRANSITIONS, GroupState
from hutong.groups.settings import GroupSettings
from hutong.wire.kafka.error_codes import ErrorCode


class ClassicGroup:
    """One group. Durable state (`GroupRecord`) is taken over only when told that it was persisted, or by `restored`."""

    __slots__ = (
        "_barrier",
        "_out",
        "_settings",
        "_sync_deadline_ms",
        "assignment_bytes",
        "generation_id",
        "group_id",
        "leases",
        "member_table",
        "proposed",
        "protocol_name",
        "protocol_type",
        "replacing",
        "state",
        "unsynced",
    )

    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.generation_id = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None  # set from the end of the join barrier until the group is empty again
        self.member_table = MemberTable()
        self.assignment_bytes = 0  # of the latest generation that was given anything
        self._settings = settings
        self._barrier: JoinBarrier | None = None  # set exactly in PreparingRebalance
        self._sync_deadline_ms: int | None = None  # set while `unsynced` is not empty
        self.unsynced: set[str] = set()
        self.proposed: dict[str, bytes] | None = None  # the leader's assignment on its way to the disk
        self.replacing: dict[int, ClassicMember] = {}  # ticket -> the static member as it was, should persisting fail
        self.leases = SessionLeases(self.member_table)
        self._out: list[Instruction] = []

    @classmethod
    def restored(cls, group_id: str, settings: GroupSettings, record: GroupRecord, now_ms: int) -> "ClassicGroup":
        """The group as its last record tells; members have one session timeout to be heard again."""
        group = cls(group_id, settings)
        group.generation_id = record.generation_id
        group.protocol_type = record.protocol_type
        for stored in record.members:
            member = member_from(stored, record.protocol_name or "")
            group.member_table.add(member)
            group.leases.renew(member, now_ms)
        if record.members:
            group.state = GroupState.STABLE
            group.protocol_name = record.protocol_name
            if record.leader_id in group.member_table.members:
                group.member_table.leader_id = record.leader_id
        group.assignment_bytes = sum(len(member.assignment) for member in group.member_table.members.values())
        return group

    # ---- questions

    @property
    def memory_bytes(self) -> int:
        """Memory of the members, most of it by their clients' choice."""
        return self.member_table.footprint_bytes + self.assignment_bytes if self.member_table.members else 0

    def next_tick_ms(self) -> int | None:
        """The time at which a `Tick` is due, or None while nothing can expire. May be early, never late."""
        join_deadline_ms = self._barrier.deadline_ms if self._barrier is not None else None
        deadlines = (join_deadline_ms, self._sync_deadline_ms, self.leases.next_tick_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    @property
    def is_blank(self) -> bool:
        """Offsets aside, nothing is lost by forgetting this group: it never had a generation and nobody is coming."""
        return self.state is GroupState.EMPTY and not self.generation_id and not self.member_table.pending

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int, now_ms: int) -> ErrorCode:
        """Renew a lease. REBALANCE_IN_PROGRESS is how members learn that they have to join again."""
        error = self.check_member(member_id, group_instance_id, generation_id)
        if error is not ErrorCode.NONE:
            return error
        self.leases.renew(self.member_table.members[member_id], now_ms)
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def check_transactional_commit(
        self, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """Check a commit in a transaction. Producers before KIP-447 send no member id and no generation."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and (self.state is GroupState.EMPTY or (not member_id and group_instance_id is None)):
            return ErrorCode.NONE
        return self.check_member(member_id, group_instance_id, generation_id)

    def check_commit(self, member_id: str, group_instance_id: str | None, generation_id: int, now_ms: int) -> ErrorCode:
        """Check a commit. It renews the member's session, as a heartbeat does."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE  # an administrator, or a consumer that assigns its partitions itself
        if generation_id < 0 and not member_id and group_instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self.check_member(member_id, group_instance_id, generation_id)
        if error is not ErrorCode.NONE:
            return error
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

    def snapshot(self) -> GroupRecord | None:
        """The group as it would be stored; None while it is not stable, or a member's request waits."""
        waits = any(m.join_ticket is not None or m.sync_ticket is not None for m in self.member_table.members.values())
        return None if waits or self.state is not GroupState.STABLE else self.record()

    def subscriptions(self) -> list[bytes]:
        """Every member's metadata, for those who know how to read it (see `groups.subscription`)."""
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
        elif join.requires_known_member_id:
            self._hand_out_member_id(join)
        else:
            self.admit(join, join.new_member_id)

    def _hand_out_member_id(self, join: Join) -> None:
        """KIP-394: a client that cannot receive its id must not become a member, or retries would pile members up."""
        timeout_ms = min(join.session_timeout_ms, self._settings.pending_member_timeout_ms)
        self.leases.await_use(join.new_member_id, join.now_ms + timeout_ms)
        self.answer(join.ticket, JoinReply(ErrorCode.MEMBER_ID_REQUIRED, join.new_member_id))

    def admit(self, join: Join, member_id: str) -> None:
        member = ClassicMember(
            member_id=member_id,
            group_instance_id=join.group_instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            session_timeout_ms=join.session_timeout_ms,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            protocols=join.protocols,
            is_new=True,
            join_ticket=join.ticket,
        )
        if not self.member_table.members:
            self.protocol_type = join.protocol_type
        self.member_table.add(member)
        if self._barrier is not None:
            self._barrier.newcomer_arrived = True
        # A newcomer does not know its id yet and cannot send heartbeats: only this deadline can remove it.
        self.leases.set_deadline(member, join.now_ms + self._settings.new_member_join_timeout_ms)
        self.rebalance(f"{member_id} joined{_because(join.reason)}", join.now_ms)

    def _rejoin(self, join: Join) -> None:
        if join.member_id in self.member_table.pending:
            self.admit(join, join.member_id)
            return
        member = self.member_table.members[join.member_id]
        if may_keep_generation(join, self.state, self.member_table, member):
            # The response of this generation was lost on its way, or a follower looks for changes: say it again.
            self.leases.renew(member, join.now_ms)
            self.answer(join.ticket, self.generation_reply(member))
            return
        self.update_member(member, join)
        self.rebalance(f"{member.member_id} rejoined{_because(join.reason)}", join.now_ms)

    def update_member(self, member: ClassicMember, join: Join) -> None:
        self.end_requests(member, ErrorCode.REBALANCE_IN_PROGRESS)
        self.member_table.set_protocols(member, join.protocols)
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.join_ticket = join.ticket

    # ---- the join barrier

    def rebalance(self, reason: str, now_ms: int) -> None:
        """Open the join barrier unless it is open already, and close it at once if nobody is missing."""
        barrier = self._barrier or self._open_barrier(reason, now_ms)
        barrier.hasten(now_ms, self.member_table.rebalance_timeout_ms)
        self._close_barrier_if_complete(barrier, now_ms)

    def _open_barrier(self, reason: str, now_ms: int) -> JoinBarrier:
        for member in self.member_table.members.values():
            if member.sync_ticket is not None:
                syncing.answer_sync(self, member, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS), now_ms)
        self.proposed = None
        self._sync_deadline_ms = None
        self.unsynced.clear()
        timeout_ms, delay_ms = self.member_table.rebalance_timeout_ms, self._settings.initial_rebalance_delay_ms
        if self.state is GroupState.EMPTY and delay_ms:
            self._barrier = JoinBarrier(now_ms + delay_ms, gathering_until_ms=now_ms + timeout_ms)
        else:
            self._barrier = JoinBarrier(now_ms + timeout_ms)
        self.enter(GroupState.PREPARING_REBALANCE)
        self.emit(Rebalancing(self.generation_id, reason))
        return self._barrier

    def _close_barrier_if_complete(self, barrier: JoinBarrier, now_ms: int) -> None:
        is_gathering = barrier.gathering_until_ms is not None and bool(self.member_table.members)
        if not is_gathering and self.member_table.has_everyone_joined:
            self._close_barrier(barrier, now_ms)

    def _close_barrier(self, barrier: JoinBarrier, now_ms: int) -> None:
        for member in self.member_table.absent_dynamic():
            self._drop(member)
        if self.member_table.members and not self.member_table.elect_joined_leader():
            # Only absent static members are left: their sessions decide, so look again when one may have ended.
            patience_ms = max(self.member_table.rebalance_timeout_ms, self._settings.session_timeout_ms_min)
            barrier.deadline_ms, barrier.nobody_came = now_ms + patience_ms, True
            return
        self._barrier = None
        self.generation_id += 1
        if self.member_table.members:
            self._announce_generation(now_ms)
        else:
            self._become_empty()

    def _become_empty(self) -> None:
        self.protocol_name = None
        self.enter(GroupState.EMPTY)
        self.emit(PersistGroup(self.record(), Emptied(self.generation_id)))

    def _announce_generation(self, now_ms: int) -> None:
        self.protocol_name = self.member_table.select_protocol()
        self.enter(GroupState.COMPLETING_REBALANCE)
        self._sync_deadline_ms = now_ms + self.member_table.rebalance_timeout_ms
        for member in self.member_table.members.values():
            if member.join_ticket is None:
                continue  # an absent static member: it keeps its place until its session ends
            ticket, member.join_ticket = member.join_ticket, None
            member.is_new = False
            self.unsynced.add(member.member_id)
            self.leases.renew(member, now_ms)
            self.answer(ticket, self.generation_reply(member))

    def generation_reply(self, member: ClassicMember) -> JoinReply:
        member_table = self.member_table
        is_leader = member_table.leader_id == member.member_id
        return JoinReply(
            ErrorCode.NONE,
            member_id=member.member_id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=member_table.leader_id or "",
            members=metadata_for_leader(member_table, self.protocol_name) if is_leader else (),
        )

    # ---- leaving and lapsing

    def _leave(self, leave: LeaveGroup) -> None:
        count_before = len(self.member_table.members)
        errors = tuple(self._dismiss(leaver) for leaver in leave.leavers)
        self.answer(leave.ticket, LeaveReply(errors))
        named = ", ".join(
            f"{each.member_id or each.group_instance_id}{_because(each.reason)}" for each in leave.leavers
        )
        self._departed(count_before, f"{named} left", leave.now_ms)

    def _dismiss(self, leaver: Leaver) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if self.member_table.pending.pop(leaver.member_id, None) is not None:
            return ErrorCode.NONE
        member_id = leaver.member_id
        if not member_id and leaver.group_instance_id is not None:
            member_id = self.member_table.static_ids.get(leaver.group_instance_id, "")
        error = self.member_table.validate(member_id, leaver.group_instance_id)
        if error is ErrorCode.NONE:
            self._drop(self.member_table.members[member_id])
        return error

    def _tick(self, now_ms: int) -> None:
        if self.leases.next_tick_ms is not None and self.leases.next_tick_ms <= now_ms:
            self._expel_silent(now_ms)
        barrier = self._barrier
        if (
            barrier is not None
            and barrier.deadline_ms <= now_ms
            and not barrier.extend(now_ms, self._settings.initial_rebalance_delay_ms)
        ):
            self._close_barrier(barrier, now_ms)
        if self._sync_deadline_ms is not None and self._sync_deadline_ms <= now_ms:
            self._expel_unsynced(now_ms)

    def _expel_silent(self, now_ms: int) -> None:
        count_before = len(self.member_table.members)
        expelled = self.leases.lapse(now_ms)
        for member in expelled:
            self._drop(member)
        named = ", ".join(member.member_id for member in expelled)
        self._departed(count_before, f"{named} fell silent", now_ms)

    def _expel_unsynced(self, now_ms: int) -> None:
        """A member that joined but never asks for its assignment would keep its partitions from being read."""
        expelled = sorted(self.unsynced)
        count_before = len(self.member_table.members)
        for member_id in expelled:
            self._drop(self.member_table.members[member_id])
        self._departed(count_before, f"{', '.join(expelled)} did not sync", now_ms)

    def _departed(self, count_before: int, reason: str, now_ms: int) -> None:
        if self._barrier is not None:
            # Somebody less to wait for, be it only a handed-out id that nobody came back with.
            self._close_barrier_if_complete(self._barrier, now_ms)
        elif len(self.member_table.members) < count_before:
            self.rebalance(reason, now_ms)

    def _drop(self, member: ClassicMember) -> None:
        self.end_requests(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.forget_unsynced(member.member_id)
        self.member_table.remove(member)

    # ---- shared by the group's modules

    def emit(self, instruction: Instruction) -> None:
        self._out.append(instruction)

    def check_member(self, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.member_table.validate(member_id, group_instance_id)
        if error is ErrorCode.NONE and generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def enter(self, state: GroupState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"group {self.group_id} cannot go from {self.state} to {state}")
        self.state = state

    def answer(self, ticket: int, reply: JoinReply | SyncReply | LeaveReply) -> None:
        self.emit(Answer(ticket, reply))

    def end_requests(self, member: ClassicMember, error: ErrorCode) -> None:
        """Answer whatever request of this member is parked here, so that none is ever left or answered twice."""
        if member.join_ticket is not None:
            self.answer(member.join_ticket, JoinReply(error, member.member_id))
            member.join_ticket = None
        if member.sync_ticket is not None:
            self.answer(member.sync_ticket, SyncReply(error))
            member.sync_ticket = None

    def forget_unsynced(self, member_id: str) -> None:
        self.unsynced.discard(member_id)
        if not self.unsynced:
            self._sync_deadline_ms = None

    def record(self, proposed: dict[str, bytes] | None = None) -> GroupRecord:
        return record_of(self.member_table, self.protocol_type, self.generation_id, self.protocol_name, proposed)

    def check_invariants(self) -> None:
        """Assert the conditions that are true between any two events; tests call it after each."""
        self.member_table.check_invariants()
        self.leases.check_invariants()
        members = self.member_table.members.values()
        gathering = self.state is GroupState.PREPARING_REBALANCE
        if self.state in (GroupState.EMPTY, GroupState.DEAD):
            assert not members
        else:
            assert members or (gathering and self.member_table.pending)
        assert (self._barrier is not None) == gathering
        assert (self._sync_deadline_ms is not None) == bool(self.unsynced)
        assert self.unsynced <= self.member_table.members.keys()
        if self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert all(any(name == self.protocol_name for name, _ in member.protocols) for member in members)
        assert self.proposed is None or self.state is GroupState.COMPLETING_REBALANCE
        for member in members:
            assert member.sync_ticket is None or self.state is GroupState.COMPLETING_REBALANCE
            assert member.join_ticket is None or gathering or member.join_ticket in self.replacing


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""
