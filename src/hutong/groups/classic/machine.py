"""One consumer group under the classic protocol: events in, instructions out.

Strategy: every wait of the protocol is one of two barriers. JoinGroup requests wait at the *join barrier* until all
known members are there or the rebalance timeout has passed; SyncGroup requests wait until the leader's assignment is
durable. All time-outs are deadlines compared on `Tick`: the driver keeps one timer per group for the earliest of them.
A lease (session deadline) that is renewed does not move that timer; it fires early once, and the group says when next.

Semantics are Kafka's (GroupMetadataManager of 4.x; KIP-345 static members, KIP-394 member ids, KIP-559 protocol checks,
KIP-814 skipped assignments), so that clients written against Kafka's corner cases find them here.

Knows nothing of sockets, clocks, disks or committed offsets. Longer than a usual file because the transitions hang
together: cut in two, no reader could check one half against the other.
"""

from dataclasses import replace

from hutong.foundation.machine import Tick
from hutong.groups.classic.membership.admission import may_keep_generation, refusal, refused
from hutong.groups.classic.membership.join_barrier import JoinBarrier
from hutong.groups.classic.membership.member_table import Member, Roster
from hutong.groups.classic.membership.session_leases import Leases
from hutong.groups.classic.messages import (
    Answer,
    Assigned,
    Cause,
    Emptied,
    Event,
    GroupDescription,
    GroupRecord,
    HandOver,
    Instruction,
    Join,
    JoinReply,
    Lapse,
    Leave,
    Leaver,
    LeaveReply,
    Persist,
    Persisted,
    PersistFailed,
    Rebalancing,
    Replaced,
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
        "_leases",
        "_out",
        "_proposed",
        "_replacing",
        "_settings",
        "_sync_deadline_ms",
        "_unsynced",
        "assignment_bytes",
        "generation_id",
        "group_id",
        "protocol_name",
        "protocol_type",
        "roster",
        "state",
    )

    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.generation_id = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None  # set from the end of the join barrier until the group is empty again
        self.roster = Roster()
        self.assignment_bytes = 0  # of the latest generation that was given anything
        self._settings = settings
        self._barrier: JoinBarrier | None = None  # set exactly in PreparingRebalance
        self._sync_deadline_ms: int | None = None  # set while `_unsynced` is not empty
        self._unsynced: set[str] = set()
        self._proposed: dict[str, bytes] | None = None  # the leader's assignment on its way to the disk
        self._replacing: dict[int, Member] = {}  # ticket -> the static member as it was, should persisting fail
        self._leases = Leases(self.roster)
        self._out: list[Instruction] = []

    @classmethod
    def restored(cls, group_id: str, settings: GroupSettings, record: GroupRecord, now_ms: int) -> "ClassicGroup":
        """The group as its last record tells; members have one session timeout to be heard again."""
        group = cls(group_id, settings)
        group.generation_id = record.generation_id
        group.protocol_type = record.protocol_type
        for stored in record.members:
            member = member_from(stored, record.protocol_name or "")
            group.roster.add(member)
            group._leases.renew(member, now_ms)
        if record.members:
            group.state = GroupState.STABLE
            group.protocol_name = record.protocol_name
            if record.leader_id in group.roster.members:
                group.roster.leader_id = record.leader_id
        group.assignment_bytes = sum(len(member.assignment) for member in group.roster.members.values())
        return group

    # ---- questions

    @property
    def memory_bytes(self) -> int:
        """What its members take up, the most of it by their clients' choice."""
        return self.roster.footprint_bytes + self.assignment_bytes if self.roster.members else 0

    def next_tick_ms(self) -> int | None:
        """When a `Tick` is due at the latest, or None while nothing can lapse. May be early, never late."""
        join_deadline_ms = self._barrier.deadline_ms if self._barrier is not None else None
        deadlines = (join_deadline_ms, self._sync_deadline_ms, self._leases.next_tick_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    @property
    def is_blank(self) -> bool:
        """Offsets aside, nothing is lost by forgetting this group: it never had a generation and nobody is coming."""
        return self.state is GroupState.EMPTY and not self.generation_id and not self.roster.pending

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int, now_ms: int) -> ErrorCode:
        """Renew a lease. REBALANCE_IN_PROGRESS is how members learn that they have to join again."""
        error = self._check_member(member_id, group_instance_id, generation_id)
        if error is not ErrorCode.NONE:
            return error
        self._leases.renew(self.roster.members[member_id], now_ms)
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def check_transactional_commit(
        self, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """Whether this caller may commit offsets in a transaction. Producers before KIP-447 do not say who they are."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and (self.state is GroupState.EMPTY or (not member_id and group_instance_id is None)):
            return ErrorCode.NONE
        return self._check_member(member_id, group_instance_id, generation_id)

    def check_commit(self, member_id: str, group_instance_id: str | None, generation_id: int, now_ms: int) -> ErrorCode:
        """Whether this caller may commit offsets now. A commit renews the lease as a heartbeat does."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE  # an administrator, or a consumer that assigns its partitions itself
        if generation_id < 0 and not member_id and group_instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self._check_member(member_id, group_instance_id, generation_id)
        if error is not ErrorCode.NONE:
            return error
        if self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._leases.renew(self.roster.members[member_id], now_ms)
        return ErrorCode.NONE

    def describe(self) -> GroupDescription:
        agreed_protocol = self.protocol_name if self.state is GroupState.STABLE else None
        return GroupDescription(
            group_id=self.group_id,
            state=self.state.value,
            protocol_type=self.protocol_type,
            protocol_name=agreed_protocol or "",
            members=describe_members(self.roster, agreed_protocol),
        )

    def snapshot(self) -> GroupRecord | None:
        """The group as it would be stored; None while it is not stable, or a member's request waits."""
        waits = any(m.join_ticket is not None or m.sync_ticket is not None for m in self.roster.members.values())
        return None if waits or self.state is not GroupState.STABLE else self._record()

    def subscriptions(self) -> list[bytes]:
        """Every member's metadata, for those who know how to read it (see `groups.subscription`)."""
        return [
            member.metadata_for(self.protocol_name or member.protocols[0][0])
            for member in self.roster.members.values()
            if member.protocols
        ]

    # ---- events

    def handle(self, event: Event) -> list[Instruction]:
        match event:
            case Join():
                self._join(event)
            case Sync():
                self._sync(event)
            case Leave():
                self._leave(event)
            case Tick(now_ms):
                self._tick(now_ms)
            case Lapse():
                self._lapse(event)
            case Persisted(cause, now_ms):
                self._persisted(cause, now_ms)
            case PersistFailed():
                self._persist_failed(event)
            case Retire() | HandOver():
                self._end(event)
        out, self._out = self._out, []
        return out

    def _lapse(self, event: Lapse) -> None:
        if event.member_id in self.roster.pending:
            self._leases.await_use(event.member_id, event.now_ms)
            self._tick(event.now_ms)

    def _end(self, event: Retire | HandOver) -> None:
        if isinstance(event, Retire):
            self._enter(GroupState.DEAD)
            return
        assert self.snapshot() is not None, "somebody waits for an answer of this group"
        self.state = GroupState.DEAD

    # ---- joining

    def _join(self, join: Join) -> None:
        error = refusal(join, self.state, self.roster, self.protocol_type, self._settings)
        if error is not ErrorCode.NONE:
            self._answer(
                join.ticket, refused(error, join.member_id, has_protocols=bool(join.protocol_type and join.protocols))
            )
        elif join.member_id:
            self._rejoin(join)
        elif join.group_instance_id is not None:
            self._join_static(join, join.group_instance_id)
        elif join.requires_known_member_id:
            self._hand_out_member_id(join)
        else:
            self._admit(join, join.new_member_id)

    def _hand_out_member_id(self, join: Join) -> None:
        """KIP-394: a client that cannot receive its id must not become a member, or retries would pile members up."""
        timeout_ms = min(join.session_timeout_ms, self._settings.pending_member_timeout_ms)
        self._leases.await_use(join.new_member_id, join.now_ms + timeout_ms)
        self._answer(join.ticket, JoinReply(ErrorCode.MEMBER_ID_REQUIRED, join.new_member_id))

    def _admit(self, join: Join, member_id: str) -> None:
        member = Member(
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
        if not self.roster.members:
            self.protocol_type = join.protocol_type
        self.roster.add(member)
        if self._barrier is not None:
            self._barrier.newcomer_arrived = True
        # A newcomer does not know its id yet and cannot send heartbeats: only this deadline can remove it.
        self._leases.set_deadline(member, join.now_ms + self._settings.new_member_join_timeout_ms)
        self._rebalance(f"{member_id} joined{_because(join.reason)}", join.now_ms)

    def _rejoin(self, join: Join) -> None:
        if join.member_id in self.roster.pending:
            self._admit(join, join.member_id)
            return
        member = self.roster.members[join.member_id]
        if may_keep_generation(join, self.state, self.roster, member):
            # The response of this generation was lost on its way, or a follower looks for changes: say it again.
            self._leases.renew(member, join.now_ms)
            self._answer(join.ticket, self._generation_reply(member))
            return
        self._update(member, join)
        self._rebalance(f"{member.member_id} rejoined{_because(join.reason)}", join.now_ms)

    def _update(self, member: Member, join: Join) -> None:
        self._let_go(member, ErrorCode.REBALANCE_IN_PROGRESS)
        self.roster.set_protocols(member, join.protocols)
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.join_ticket = join.ticket

    # ---- static members (KIP-345)

    def _join_static(self, join: Join, group_instance_id: str) -> None:
        member_id = self.roster.static_ids.get(group_instance_id)
        if member_id is None:
            self._admit(join, join.new_member_id)
        else:
            self._take_over(self.roster.members[member_id], join, group_instance_id)

    def _take_over(self, member: Member, join: Join, group_instance_id: str) -> None:
        """A restarted instance takes its old place; nobody else needs to notice unless the protocol changes with it."""
        old_member_id, old_leader_id = member.member_id, self.roster.leader_id
        self._let_go(member, ErrorCode.FENCED_INSTANCE_ID)
        before = replace(member)
        self._forget_unsynced(old_member_id)
        self.roster.rename(member, join.new_member_id, join.client_id, join.client_host)
        self._update(member, join)
        member.is_new = False
        self._leases.renew(member, join.now_ms)
        if self.state is GroupState.STABLE and self.roster.select_protocol() == self.protocol_name:
            self._replacing[join.ticket] = before
            cause = Replaced(
                join.ticket,
                group_instance_id,
                old_member_id,
                member.member_id,
                old_leader_id,
                join.can_skip_assignment,
            )
            self._out.append(Persist(self._record(), cause))
        else:
            self._rebalance(f"static member {group_instance_id} came back as {member.member_id}", join.now_ms)

    def _answer_replaced(self, cause: Replaced) -> None:
        member = self._still_waiting(cause)
        if member is None:
            return
        member.join_ticket = None
        reply = self._generation_reply(member)
        is_leader = self.roster.leader_id == member.member_id
        if cause.can_skip_assignment:
            reply = replace(reply, skip_assignment=is_leader)
        else:
            # Versions before 9 cannot be told to skip assigning, so a returning leader is told that its old id leads.
            reply = replace(reply, leader_id=cause.old_leader_id or "", members=())
        self._answer(cause.ticket, reply)

    def _undo_replaced(self, cause: Replaced, before: Member, error: ErrorCode, now_ms: int) -> None:
        member = self._still_waiting(cause)
        if member is None:
            return
        member.join_ticket = None
        self.roster.rename(member, cause.old_member_id, before.client_id, before.client_host)
        self.roster.set_protocols(member, before.protocols)
        member.session_timeout_ms = before.session_timeout_ms
        member.rebalance_timeout_ms = before.rebalance_timeout_ms
        self._leases.renew(member, now_ms)
        self._answer(cause.ticket, JoinReply(error))

    def _still_waiting(self, cause: Replaced) -> Member | None:
        """The replaced member, unless a rebalance has taken its waiting request over meanwhile."""
        member = self.roster.members.get(cause.new_member_id)
        if self.state is not GroupState.STABLE or member is None or member.join_ticket != cause.ticket:
            return None
        return member

    # ---- the join barrier

    def _rebalance(self, reason: str, now_ms: int) -> None:
        """Open the join barrier unless it is open already, and close it at once if nobody is missing."""
        barrier = self._barrier or self._open_barrier(reason, now_ms)
        barrier.hasten(now_ms, self.roster.rebalance_timeout_ms)
        self._close_barrier_if_complete(barrier, now_ms)

    def _open_barrier(self, reason: str, now_ms: int) -> JoinBarrier:
        for member in self.roster.members.values():
            if member.sync_ticket is not None:
                self._answer_sync(member, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS), now_ms)
        self._proposed = None
        self._sync_deadline_ms = None
        self._unsynced.clear()
        timeout_ms, delay_ms = self.roster.rebalance_timeout_ms, self._settings.initial_rebalance_delay_ms
        if self.state is GroupState.EMPTY and delay_ms:
            self._barrier = JoinBarrier(now_ms + delay_ms, gathering_until_ms=now_ms + timeout_ms)
        else:
            self._barrier = JoinBarrier(now_ms + timeout_ms)
        self._enter(GroupState.PREPARING_REBALANCE)
        self._out.append(Rebalancing(self.generation_id, reason))
        return self._barrier

    def _close_barrier_if_complete(self, barrier: JoinBarrier, now_ms: int) -> None:
        is_gathering = barrier.gathering_until_ms is not None and bool(self.roster.members)
        if not is_gathering and self.roster.has_everyone_joined:
            self._close_barrier(barrier, now_ms)

    def _close_barrier(self, barrier: JoinBarrier, now_ms: int) -> None:
        for member in self.roster.absent_dynamic():
            self._drop(member)
        if self.roster.members and not self.roster.elect_joined_leader():
            # Only absent static members are left: their sessions decide, so look again when one may have ended.
            patience_ms = max(self.roster.rebalance_timeout_ms, self._settings.session_timeout_ms_min)
            barrier.deadline_ms, barrier.nobody_came = now_ms + patience_ms, True
            return
        self._barrier = None
        self.generation_id += 1
        if self.roster.members:
            self._announce_generation(now_ms)
        else:
            self._become_empty()

    def _become_empty(self) -> None:
        self.protocol_name = None
        self._enter(GroupState.EMPTY)
        self._out.append(Persist(self._record(), Emptied(self.generation_id)))

    def _announce_generation(self, now_ms: int) -> None:
        self.protocol_name = self.roster.select_protocol()
        self._enter(GroupState.COMPLETING_REBALANCE)
        self._sync_deadline_ms = now_ms + self.roster.rebalance_timeout_ms
        for member in self.roster.members.values():
            if member.join_ticket is None:
                continue  # an absent static member: it keeps its place until its session ends
            ticket, member.join_ticket = member.join_ticket, None
            member.is_new = False
            self._unsynced.add(member.member_id)
            self._leases.renew(member, now_ms)
            self._answer(ticket, self._generation_reply(member))

    def _generation_reply(self, member: Member) -> JoinReply:
        roster = self.roster
        is_leader = roster.leader_id == member.member_id
        return JoinReply(
            ErrorCode.NONE,
            member_id=member.member_id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=roster.leader_id or "",
            members=metadata_for_leader(roster, self.protocol_name) if is_leader else (),
        )

    # ---- syncing

    def _sync(self, sync: Sync) -> None:
        error = self._sync_error(sync)
        if error is not ErrorCode.NONE:
            self._answer(sync.ticket, SyncReply(error))
            return
        member = self.roster.members[sync.member_id]
        self._let_go(member, ErrorCode.REBALANCE_IN_PROGRESS)
        self._forget_unsynced(sync.member_id)
        member.sync_ticket = sync.ticket
        if self.state is GroupState.STABLE:
            self._answer_sync(member, self._assignment_reply(member), sync.now_ms)
        elif self.roster.leader_id == sync.member_id and self._proposed is None:
            self._propose(dict(sync.assignments))

    def _sync_error(self, sync: Sync) -> ErrorCode:
        error = self._check_member(sync.member_id, sync.group_instance_id, sync.generation_id)
        if error is not ErrorCode.NONE:
            return error
        if sync.protocol_type is not None and sync.protocol_type != self.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if sync.protocol_name is not None and self.protocol_name not in (None, sync.protocol_name):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _propose(self, assignments: dict[str, bytes]) -> None:
        """Members of this generation only, each with something: whoever the leader forgot gets an empty assignment."""
        self._proposed = {member_id: assignments.get(member_id, b"") for member_id in self.roster.members}
        self._out.append(Persist(self._record(self._proposed), Assigned(self.generation_id)))

    def _persisted(self, cause: Cause, now_ms: int) -> None:
        match cause:
            case Assigned(generation_id):
                if self._is_awaited(generation_id):
                    self._become_stable(now_ms)
            case Replaced():
                self._replacing.pop(cause.ticket, None)
                self._answer_replaced(cause)
            case Emptied():
                pass

    def _persist_failed(self, event: PersistFailed) -> None:
        match event.cause:
            case Assigned(generation_id):
                if self._is_awaited(generation_id):
                    self._abandon_generation(event.error, event.now_ms)
            case Replaced():
                before = self._replacing.pop(event.cause.ticket)
                self._undo_replaced(event.cause, before, event.error, event.now_ms)
            case Emptied():
                pass  # replaying the record before it finds members that never come back: their sessions end

    def _is_awaited(self, generation_id: int) -> bool:
        """False if another rebalance began while the record was on its way."""
        return self._proposed is not None and generation_id == self.generation_id

    def _become_stable(self, now_ms: int) -> None:
        assert self._proposed is not None
        self._enter(GroupState.STABLE)
        self.assignment_bytes = sum(map(len, self._proposed.values()))
        for member in self.roster.members.values():
            member.assignment = self._proposed.get(member.member_id, b"")
            if member.sync_ticket is not None:
                self._answer_sync(member, self._assignment_reply(member), now_ms)
        self._proposed = None

    def _abandon_generation(self, error: ErrorCode, now_ms: int) -> None:
        for member in self.roster.members.values():
            member.assignment = b""
            if member.sync_ticket is not None:
                self._answer_sync(member, SyncReply(error), now_ms)
        self._rebalance("the assignment could not be stored", now_ms)

    def _assignment_reply(self, member: Member) -> SyncReply:
        return SyncReply(ErrorCode.NONE, self.protocol_type, self.protocol_name, member.assignment)

    def _answer_sync(self, member: Member, reply: SyncReply, now_ms: int) -> None:
        assert member.sync_ticket is not None
        ticket, member.sync_ticket = member.sync_ticket, None
        self._leases.renew(member, now_ms)
        self._answer(ticket, reply)

    # ---- leaving and lapsing

    def _leave(self, leave: Leave) -> None:
        count_before = len(self.roster.members)
        errors = tuple(self._dismiss(leaver) for leaver in leave.leavers)
        self._answer(leave.ticket, LeaveReply(errors))
        named = ", ".join(
            f"{each.member_id or each.group_instance_id}{_because(each.reason)}" for each in leave.leavers
        )
        self._departed(count_before, f"{named} left", leave.now_ms)

    def _dismiss(self, leaver: Leaver) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if self.roster.pending.pop(leaver.member_id, None) is not None:
            return ErrorCode.NONE
        member_id = leaver.member_id
        if not member_id and leaver.group_instance_id is not None:
            member_id = self.roster.static_ids.get(leaver.group_instance_id, "")
        error = self.roster.validate(member_id, leaver.group_instance_id)
        if error is ErrorCode.NONE:
            self._drop(self.roster.members[member_id])
        return error

    def _tick(self, now_ms: int) -> None:
        if self._leases.next_tick_ms is not None and self._leases.next_tick_ms <= now_ms:
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
        count_before = len(self.roster.members)
        expelled = self._leases.lapse(now_ms)
        for member in expelled:
            self._drop(member)
        named = ", ".join(member.member_id for member in expelled)
        self._departed(count_before, f"{named} fell silent", now_ms)

    def _expel_unsynced(self, now_ms: int) -> None:
        """A member that joined but never asks for its assignment would keep its partitions from being read."""
        expelled = sorted(self._unsynced)
        count_before = len(self.roster.members)
        for member_id in expelled:
            self._drop(self.roster.members[member_id])
        self._departed(count_before, f"{', '.join(expelled)} did not sync", now_ms)

    def _departed(self, count_before: int, reason: str, now_ms: int) -> None:
        if self._barrier is not None:
            # Somebody less to wait for, be it only a handed-out id that nobody came back with.
            self._close_barrier_if_complete(self._barrier, now_ms)
        elif len(self.roster.members) < count_before:
            self._rebalance(reason, now_ms)

    def _drop(self, member: Member) -> None:
        self._let_go(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self._forget_unsynced(member.member_id)
        self.roster.remove(member)

    # ---- shared

    def _check_member(self, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.roster.validate(member_id, group_instance_id)
        if error is ErrorCode.NONE and generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def _enter(self, state: GroupState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"group {self.group_id} cannot go from {self.state} to {state}")
        self.state = state

    def _answer(self, ticket: int, reply: JoinReply | SyncReply | LeaveReply) -> None:
        self._out.append(Answer(ticket, reply))

    def _let_go(self, member: Member, error: ErrorCode) -> None:
        """Answer whatever request of this member is parked here, so that none is ever left or answered twice."""
        if member.join_ticket is not None:
            self._answer(member.join_ticket, JoinReply(error, member.member_id))
            member.join_ticket = None
        if member.sync_ticket is not None:
            self._answer(member.sync_ticket, SyncReply(error))
            member.sync_ticket = None

    def _forget_unsynced(self, member_id: str) -> None:
        self._unsynced.discard(member_id)
        if not self._unsynced:
            self._sync_deadline_ms = None

    def _record(self, proposed: dict[str, bytes] | None = None) -> GroupRecord:
        return record_of(self.roster, self.protocol_type, self.generation_id, self.protocol_name, proposed)

    def check_invariants(self) -> None:
        """What holds between any two events; tests call it after each."""
        self.roster.check_invariants()
        self._leases.check_invariants()
        members = self.roster.members.values()
        gathering = self.state is GroupState.PREPARING_REBALANCE
        if self.state in (GroupState.EMPTY, GroupState.DEAD):
            assert not members
        else:
            assert members or (gathering and self.roster.pending)
        assert (self._barrier is not None) == gathering
        assert (self._sync_deadline_ms is not None) == bool(self._unsynced)
        assert self._unsynced <= self.roster.members.keys()
        if self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert all(any(name == self.protocol_name for name, _ in member.protocols) for member in members)
        assert self._proposed is None or self.state is GroupState.COMPLETING_REBALANCE
        for member in members:
            assert member.sync_ticket is None or self.state is GroupState.COMPLETING_REBALANCE
            assert member.join_ticket is None or gathering or member.join_ticket in self._replacing


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""
