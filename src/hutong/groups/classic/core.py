"""State of a classic group, and the changes that all of its events are made of: members, generations, the join barrier.

Strategy: `machine.py` decides which change an event makes. Modules for one part of the protocol (`static_members.py`,
`syncing.py`) work on this class, so that none of them imports the machine.

Knows no events.
"""

from hutong.foundation.machine import Answer
from hutong.groups.classic.membership.join_barrier import JoinBarrier
from hutong.groups.classic.membership.member_table import ClassicMember, MemberTable
from hutong.groups.classic.membership.session_leases import SessionLeases
from hutong.groups.classic.messages import (
    Emptied,
    Instruction,
    Join,
    JoinReply,
    LeaveReply,
    PersistGroup,
    Rebalancing,
    SyncReply,
)
from hutong.groups.classic.records import GroupRecord
from hutong.groups.classic.snapshots import metadata_for_leader, record_of
from hutong.groups.classic.states import TRANSITIONS, GroupState
from hutong.groups.settings import GroupSettings
from hutong.wire.kafka.error_codes import ErrorCode


class ClassicGroupCore:
    """One group without its events. Each attribute without an underscore is for the modules named above."""

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

    # ---- questions

    @property
    def memory_bytes(self) -> int:
        """Memory of the members, most of it by their clients' choice."""
        return self.member_table.footprint_bytes + self.assignment_bytes if self.member_table.members else 0

    @property
    def is_blank(self) -> bool:
        """Offsets aside, nothing is lost by forgetting this group: it never had a generation and nobody is coming."""
        return self.state is GroupState.EMPTY and not self.generation_id and not self.member_table.pending

    def snapshot(self) -> GroupRecord | None:
        """The group as it would be stored; None while it is not stable, or a member's request waits."""
        waits = any(m.join_ticket is not None or m.sync_ticket is not None for m in self.member_table.members.values())
        return None if waits or self.state is not GroupState.STABLE else self.record()

    # ---- members

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
        # The first member decides on the protocol type; later members must have the same (JoinGroup,
        # INCONSISTENT_GROUP_PROTOCOL).
        if not self.member_table.members:
            self.protocol_type = join.protocol_type
        self.member_table.add(member)
        if self._barrier is not None:
            # Members that still arrive prolong the first barrier of an empty group (KIP-134,
            # group.initial.rebalance.delay.ms).
            self._barrier.newcomer_arrived = True
        # A newcomer does not know its id yet and cannot send heartbeats: only this deadline can remove it.
        self.leases.set_deadline(member, join.now_ms + self._settings.new_member_join_timeout_ms)
        self.rebalance(f"{member_id} joined{because(join.reason)}", join.now_ms)

    def update_member(self, member: ClassicMember, join: Join) -> None:
        self.end_requests(member, ErrorCode.REBALANCE_IN_PROGRESS)
        self.member_table.set_protocols(member, join.protocols)
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.join_ticket = join.ticket

    def drop(self, member: ClassicMember) -> None:
        self.end_requests(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.forget_unsynced(member.member_id)
        self.member_table.remove(member)

    # ---- the join barrier

    def rebalance(self, reason: str, now_ms: int) -> None:
        """Open the join barrier unless it is open already, and close it at once if nobody is missing."""
        barrier = self._barrier or self._open_barrier(reason, now_ms)
        # A member came after a round that nobody had joined: the others get one rebalance time-out, not the rest of the
        # long wait.
        barrier.hasten(now_ms, self.member_table.rebalance_timeout_ms)
        self._close_barrier_if_complete(barrier, now_ms)

    def _open_barrier(self, reason: str, now_ms: int) -> JoinBarrier:
        # A member that waits for its assignment waits for a generation that ends here. With this error it joins again.
        for member in self.member_table.members.values():
            if member.sync_ticket is not None:
                self.answer_sync(member, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS), now_ms)
        # The record of the old assignment may still be on its way. Without `proposed` its arrival changes nothing.
        self.proposed = None
        self._sync_deadline_ms = None
        self.unsynced.clear()
        timeout_ms, delay_ms = self.member_table.rebalance_timeout_ms, self._settings.initial_rebalance_delay_ms
        # Only an empty group waits for more members than it knows: a fleet that starts together then costs one
        # rebalance (KIP-134).
        if self.state is GroupState.EMPTY and delay_ms:
            self._barrier = JoinBarrier(now_ms + delay_ms, extended_until_ms=now_ms + timeout_ms)
        else:
            self._barrier = JoinBarrier(now_ms + timeout_ms)
        self.enter(GroupState.PREPARING_REBALANCE)
        self.emit(Rebalancing(self.generation_id, reason))
        return self._barrier

    def _close_barrier_if_complete(self, barrier: JoinBarrier, now_ms: int) -> None:
        # During the initial delay "everyone has joined" means nothing: nobody knows how many will come.
        is_initial_delay = barrier.extended_until_ms is not None and bool(self.member_table.members)
        if not is_initial_delay and self.member_table.has_everyone_joined:
            self._close_barrier(barrier, now_ms)

    def _close_barrier(self, barrier: JoinBarrier, now_ms: int) -> None:
        # A dynamic member that did not join in time is removed. A static one keeps its place until its session ends
        # (KIP-345).
        for member in self.member_table.absent_dynamic():
            self.drop(member)
        if self.member_table.members and not self.member_table.elect_joined_leader():
            # Only absent static members are left: their sessions decide, so look again when one may have ended.
            patience_ms = max(self.member_table.rebalance_timeout_ms, self._settings.session_timeout_ms_min)
            barrier.deadline_ms, barrier.nobody_came = now_ms + patience_ms, True
            return
        self._barrier = None
        # An empty group, too, gets a new generation, so that members of the last one are fenced.
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
        # As in Kafka, members that do not sync within the rebalance time-out are removed.
        self._sync_deadline_ms = now_ms + self.member_table.rebalance_timeout_ms
        for member in self.member_table.members.values():
            if member.join_ticket is None:
                continue  # an absent static member: it keeps its place until its session ends
            ticket, member.join_ticket = member.join_ticket, None
            member.is_new = False
            # From here on the member must send heartbeats: its parked request no longer replaces them.
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

    # ---- instructions and checks

    def emit(self, instruction: Instruction) -> None:
        self._out.append(instruction)

    def check_member(self, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.member_table.validate(member_id, group_instance_id)
        # Identity comes before the generation, as in Kafka: a fenced static member must stop, not join again.
        if error is ErrorCode.NONE and generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def enter(self, state: GroupState) -> None:
        # A transition that is not in the table is a bug of this machine, never a client's fault.
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"group {self.group_id} cannot go from {self.state} to {state}")
        self.state = state

    def answer(self, ticket: int, reply: JoinReply | SyncReply | LeaveReply) -> None:
        self.emit(Answer(ticket, reply))

    def answer_sync(self, member: ClassicMember, reply: SyncReply, now_ms: int) -> None:
        assert member.sync_ticket is not None
        ticket, member.sync_ticket = member.sync_ticket, None
        self.leases.renew(member, now_ms)
        self.answer(ticket, reply)

    def end_requests(self, member: ClassicMember, error: ErrorCode) -> None:
        """Answer this member's parked request, if any, so that none is left or answered twice."""
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


def because(reason: str) -> str:
    return f" ({reason})" if reason else ""
