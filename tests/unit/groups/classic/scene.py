"""A classic group as a scene: requests, the time and the answers. Checks the invariants after every event."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from hutong.foundation.machine import Answer, Tick
from hutong.groups.classic.machine import ClassicGroup
from hutong.groups.classic.messages import (
    Event,
    GroupPersisted,
    GroupPersistFailed,
    Instruction,
    Join,
    JoinReply,
    LeaveGroup,
    Leaver,
    LeaveReply,
    PersistGroup,
    Protocols,
    Rebalancing,
    Reply,
    Sync,
    SyncReply,
)
from hutong.groups.settings import GroupSettings
from hutong.wire.kafka.error_codes import ErrorCode

RANGE: Protocols = (("range", b"topics"),)
SETTINGS = GroupSettings(initial_rebalance_delay_ms=100)
GATHERING_MS = 300  # more than the first members are waited for
SESSION_MS = 10_000
REBALANCE_MS = 60_000
ReplyT = TypeVar("ReplyT", JoinReply, SyncReply, LeaveReply)


class Scene:
    """Tickets are handed out in order; each may be answered once."""

    def __init__(self, settings: GroupSettings = SETTINGS, group: ClassicGroup | None = None) -> None:
        self.group = group or ClassicGroup("readers", settings)
        self.now_ms = 1_000
        self.answers: dict[int, Reply] = {}
        self.asked: set[int] = set()
        self.to_persist: list[PersistGroup] = []
        self.rebalances: list[str] = []
        self._ids = 0

    # ---- what is asked

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Protocols = RANGE,
        protocol_type: str = "consumer",
        knows_id: bool = True,
        can_skip: bool = True,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> int:
        """`knows_id` is how clients before version 4 behave: they become members at once."""
        ticket = self._ticket()
        self._ids += 1
        event = Join(
            ticket,
            self.now_ms,
            member_id,
            f"{instance or 'client'}-{self._ids}",
            instance,
            "client",
            "/10.0.0.1",
            session_ms,
            rebalance_ms,
            protocol_type,
            protocols,
            requires_known_member_id=not knows_id,
            can_skip_assignment=can_skip,
        )
        self.tell(event)
        return ticket

    def sync(
        self,
        member_id: str,
        assignments: Mapping[str, bytes] | None = None,
        *,
        generation_id: int | None = None,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> int:
        ticket = self._ticket()
        generation_id = self.group.generation_id if generation_id is None else generation_id
        shares = tuple((assignments or {}).items())
        self.tell(Sync(ticket, self.now_ms, member_id, instance, generation_id, protocol_type, protocol_name, shares))
        return ticket

    def leave(self, *leavers: Leaver) -> tuple[ErrorCode, ...]:
        ticket = self._ticket()
        self.tell(LeaveGroup(ticket, self.now_ms, leavers))
        return self.said(ticket, LeaveReply).errors

    def heartbeat(self, member_id: str, generation_id: int | None = None, instance: str | None = None) -> ErrorCode:
        generation_id = self.group.generation_id if generation_id is None else generation_id
        error = self.group.heartbeat(member_id, instance, generation_id, self.now_ms)
        self.group.check_invariants()
        return error

    def commit(self, member_id: str, generation_id: int | None = None, instance: str | None = None) -> ErrorCode:
        generation_id = self.group.generation_id if generation_id is None else generation_id
        error = self.group.check_commit(member_id, instance, generation_id, self.now_ms)
        self.group.check_invariants()
        return error

    # ---- what happens

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, ticking whenever the group has asked for it."""
        until_ms = self.now_ms + milliseconds
        while (due_ms := self.group.next_tick_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.tell(Tick(self.now_ms))
        self.now_ms = until_ms

    def persist(self) -> None:
        """Everything that was to be written is now durable."""
        while self.to_persist:
            self.tell(GroupPersisted(self.to_persist.pop(0).cause, self.now_ms))

    def fail_to_persist(self, error: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> None:
        while self.to_persist:
            self.tell(GroupPersistFailed(self.to_persist.pop(0).cause, error, self.now_ms))

    def tell(self, event: Event) -> None:
        for instruction in self.group.handle(event):
            self._carry_out(instruction)
        self.group.check_invariants()

    # ---- what was answered

    def said(self, ticket: int, kind: type[ReplyT]) -> ReplyT:
        reply = self.answers[ticket]
        assert isinstance(reply, kind)
        return reply

    def joined(self, ticket: int) -> JoinReply:
        return self.said(ticket, JoinReply)

    def synced(self, ticket: int) -> SyncReply:
        return self.said(ticket, SyncReply)

    def waits(self, ticket: int) -> bool:
        return ticket not in self.answers

    # ---- whole scenes

    def stable(self, count: int = 0, *, instances: tuple[str, ...] = ()) -> list[str]:
        """Bring static and then dynamic members to a stable generation; returns their ids, the leader's first."""
        tickets = [self.join(instance=each) for each in instances] + [self.join() for _ in range(count)]
        self.pass_time(GATHERING_MS)
        ids = [self.joined(ticket).member_id for ticket in tickets]
        self.share_out(ids)
        return ids

    def share_out(self, ids: Sequence[str]) -> list[int]:
        """Everyone syncs, the leader first and with a share for each; returns the tickets."""
        table = self.group.member_table
        tickets = []
        for member_id in sorted(ids, key=lambda each: each != table.leader_id):
            shares = {each: f"share of {each}".encode() for each in ids} if member_id == table.leader_id else None
            tickets.append(self.sync(member_id, shares, instance=table.members[member_id].group_instance_id))
        self.persist()
        return tickets

    def _ticket(self) -> int:
        ticket = len(self.asked) + 1
        self.asked.add(ticket)
        return ticket

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Answer(ticket, reply):
                assert ticket in self.asked, "an answer that nobody waits for"
                assert ticket not in self.answers, "a second answer to one request"
                self.answers[ticket] = reply
            case PersistGroup():
                self.to_persist.append(instruction)
            case Rebalancing(_, reason):
                self.rebalances.append(reason)
