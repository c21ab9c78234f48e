"""State of a group in which the broker assigns, and the changes that all of its events are made of.

Strategy: a group has three numbers. The *group epoch* rises with every change that matters. The *assignment epoch* is
the group epoch for which the target assignment was computed. A *member epoch* follows when that member has taken its
step (`member.step`). No member waits for another.

A holding is given to a member only while its *locks* are free. A partition is its own lock. What a task of a streams
group needs more than one of is in `streams/core.py`.

Changes take effect at once, and each notes the keys of the records it changes. The driver holds every answer back until
those records are durable. A record that could not be stored is stored again with the next change.

Knows no heartbeats, topics, sockets, clocks or disks. A kind of group says what its members subscribe to, which target
they get, and what its records are.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from hutong.foundation.machine import Answer, Tick
from hutong.groups.assigned.checks import commit_error, find_removed, offset_fetch_error
from hutong.groups.assigned.deadlines import MemberDeadlines
from hutong.groups.assigned.member import HOLDING_BYTES, AssignedMember, step
from hutong.groups.assigned.messages import (
    JOINING,
    OF_EACH_MEMBER,
    EpochNote,
    HoldingT,
    RecordKey,
    RecordKind,
    Remove,
    RemoveReply,
    StoreFailed,
    StoreRecords,
    SubscribedTopicsChanged,
)
from hutong.groups.assigned.settings import GroupTimes
from hutong.groups.assigned.states import AssignedGroupState
from hutong.groups.footprints import Footprints
from hutong.wire.kafka.error_codes import ErrorCode

MemberT = TypeVar("MemberT", bound=AssignedMember[Any])


class AssignedGroupCore(Generic[MemberT, HoldingT]):
    """One group without its heartbeats. `times` may be replaced at any time: they count from the next heartbeat on."""

    WHOLE_RECORDS: ClassVar[tuple[RecordKind, ...]] = (RecordKind.GROUP, RecordKind.TARGET_EPOCH)
    """The records that a group has once, and not for each member."""

    __slots__ = (
        "_assign_after_ms",
        "_deadlines",
        "_footprints",
        "_out",
        "_target_count",
        "_touched",
        "assignment_epoch",
        "epoch",
        "group_id",
        "is_dead",
        "members",
        "owners",
        "static_ids",
        "targets",
        "times",
    )

    def __init__(self, group_id: str, times: GroupTimes) -> None:
        self.group_id = group_id
        self.times = times
        self.epoch = 0  # never falls
        self.assignment_epoch = 0  # never falls, and never exceeds the group epoch
        self.members: dict[str, MemberT] = {}
        self.static_ids: dict[str, str] = {}  # instance id -> member id
        self.targets: dict[str, frozenset[HoldingT]] = {}  # of members alone
        self.owners: dict[Hashable, str] = {}  # who has which lock, to be given up or not: one member each
        self.is_dead = False
        self._touched: dict[RecordKey, None] = {}  # records that are not as the group is
        self._assign_after_ms = 0  # no target is computed before this
        self._footprints = Footprints()
        self._target_count = 0  # of holdings in all targets
        self._deadlines = MemberDeadlines()
        self._out: list[Any] = []

    # ---- what each kind of group has of its own

    def handle_request(self, event: Any) -> None:
        """Take an event that this kind of group has of its own."""
        raise NotImplementedError

    @property
    def topic_names(self) -> frozenset[str]:
        """Every topic that members read, whether it is there or not."""
        raise NotImplementedError

    def refresh_topics(self) -> bool:
        """Look up the topics of now; True if they have changed in a way that matters."""
        raise NotImplementedError

    def computed_targets(self) -> Mapping[str, frozenset[HoldingT]]:
        """The target of each member, from what members have said and the topics of this epoch. Pure and sticky."""
        raise NotImplementedError

    def locks_of(self, member: MemberT, holdings: Iterable[HoldingT]) -> Iterable[Hashable]:
        """The locks that these holdings need, if this member has them."""
        raise NotImplementedError

    def holdings_of(self, partitions: Iterable[tuple[bytes, int]]) -> Iterable[HoldingT | None]:
        """The holdings that these partitions (topic id, index) belong to; None for one that belongs to nothing here."""
        raise NotImplementedError

    def forget_declaration(self, member: MemberT) -> None:
        """The member goes: what was counted of its declaration goes with it."""

    @property
    def may_assign(self) -> bool:
        """False while something that decides on the target is not known yet."""
        return True

    # ---- events

    def handle(self, event: Any) -> list[Any]:
        """Take one event, and return what is to be done, in order."""
        match event:
            case Remove():
                self.remove_all(event)
            case Tick(now_ms):
                self.tick(now_ms)
            case SubscribedTopicsChanged(now_ms):
                # Only topics that members read raise the epoch. Others do so if a pattern now matches them.
                if self.refresh_topics():
                    self.begin_epoch("topics changed", now_ms)
                else:
                    self.assign(now_ms)
            case StoreFailed(keys):
                # Nobody waits for these records: the driver has answered with an error. They go with the next change.
                self._touched.update(dict.fromkeys(keys))
                return []
            case _:
                self.handle_request(event)
        return self.take_out()

    # ---- questions

    @property
    def state(self) -> AssignedGroupState:
        if self.is_dead:
            return AssignedGroupState.DEAD
        if not self.members:
            return AssignedGroupState.EMPTY
        # The order is Kafka's: a group that still has to assign is not reconciling yet.
        if self.epoch > self.assignment_epoch:
            return AssignedGroupState.ASSIGNING
        if all(member.is_at(self.assignment_epoch) for member in self.members.values()):
            return AssignedGroupState.STABLE
        return AssignedGroupState.RECONCILING

    @property
    def memory_bytes(self) -> int:
        """Approximate memory of the members: declarations, holdings and targets."""
        # Each holding is counted where it is kept: with its owner and in a target.
        return self._footprints.total_bytes + HOLDING_BYTES * (len(self.owners) + self._target_count)

    def footprint_bytes(self, member_id: str) -> int:
        """Bytes of one member's declaration; 0 for an unknown member."""
        return self._footprints.of(member_id)

    def check_commit(
        self, member_id: str, epoch: int, partitions: Iterable[tuple[bytes, int]], api_version: int
    ) -> ErrorCode:
        """Check a commit of these partitions (topic id, index)."""
        return commit_error(self.members, member_id, epoch, self.holdings_of(partitions), api_version)

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Check an OffsetFetch: a member with an old epoch would read old offsets."""
        return offset_fetch_error(self.members, member_id, epoch)

    def next_tick_ms(self) -> int | None:
        """The time at which a `Tick` is due, or None while nothing can expire. May be early, never late."""
        is_behind = self.members and self.epoch > self.assignment_epoch and self.may_assign
        # While `may_assign` is False no tick can help: what it waits for reports the end itself.
        assign_ms = self._assign_after_ms if is_behind else None
        return min((due for due in (self._deadlines.next_tick_ms, assign_ms) if due is not None), default=None)

    # ---- members

    def add(self, member: MemberT) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id

    def admit(self, member: MemberT) -> None:
        """Add a new member, without any target yet."""
        self.add(member)
        self.targets[member.member_id] = frozenset()
        self.touch(RecordKind.MEMBER, member.member_id)
        self.touch(RecordKind.CURRENT, member.member_id)

    def restore_member(self, member: MemberT, target: frozenset[HoldingT], now_ms: int) -> None:
        """Add the member of a record. It has one session time-out to send a heartbeat."""
        self.add(member)
        self.touch(RecordKind.MEMBER, member.member_id)  # so that its bytes are counted
        self.targets[member.member_id] = target
        self.occupy(member)
        # The time that the node was down does not count: members could not send heartbeats.
        self.renew(member, now_ms)
        self._deadlines.watch_revocation(member, now_ms)

    def end_restoring(self) -> None:
        """Everything is as stored, so nothing is to be written."""
        self.count_targets()
        self.count_footprints()
        self._touched.clear()

    def count_footprints(self) -> None:
        for kind, member_id in self._touched:
            if kind is RecordKind.MEMBER:
                self._footprints.count(member_id, self.members.get(member_id))

    def count_targets(self) -> None:
        """Count again after targets have come from somewhere else than an assignment."""
        self._target_count = sum(map(len, self.targets.values()))

    def drop(self, member: MemberT) -> None:
        member_id = member.member_id
        # Its holdings are free at once: a member that is gone can process no more records.
        self._target_count -= len(self.targets[member_id])
        self.release(self.locks_of(member, member.held()))
        self.forget_declaration(member)
        del self.members[member_id], self.targets[member_id]
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        # The member's records go with it: the driver writes tombstones for keys that the group no longer has.
        for kind in OF_EACH_MEMBER:
            self.touch(kind, member_id)
        if not self.members:
            # The interval between assignments spares members needless moves. An empty group has none to spare.
            self._assign_after_ms = 0

    def rename(self, member: MemberT, member_id: str) -> MemberT:
        """A static member is back under a new id: everything that was kept for it is its own (KIP-345)."""
        old_id = member.member_id
        for kind in OF_EACH_MEMBER:
            self.touch(kind, old_id)
            self.touch(kind, member_id)
        del self.members[old_id]
        member.member_id, member.epoch, member.previous_epoch = member_id, JOINING, -1
        self.members[member_id] = member
        self.targets[member_id] = self.targets.pop(old_id)
        # The instance keeps its holdings, so nothing is revoked and no other member notices.
        self.occupy(member)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member_id
        return member

    def remove_all(self, event: Remove) -> None:
        """Take out the members that an administrator names."""
        errors = []
        for removal in event.removals:
            member, error = find_removed(removal, self.members, self.static_ids)
            if member is not None:
                self.drop(member)
            errors.append(error)
        # One epoch for all that are removed together. Unknown members change nothing.
        if ErrorCode.NONE in errors:
            self.begin_epoch("members were removed", event.now_ms)
        self.answer(event.ticket, RemoveReply(tuple(errors)))

    def tick(self, now_ms: int) -> None:
        """Drop every member of which a deadline has passed, and compute a target that is due."""
        expired: list[MemberT] = self._deadlines.expired(self.members.values(), now_ms)
        for member in expired:
            # Both time-outs end the membership. The note says which one, since the operator's remedy differs.
            is_silent = member.session_deadline_ms is not None and member.session_deadline_ms <= now_ms
            what = "was not heard of in time" if is_silent else "did not give up in time what it had to"
            self._out.append(EpochNote(f"{member.member_id} {what} and is removed"))
            self.drop(member)
        if expired:
            self.begin_epoch("members were silent", now_ms)
        self.assign(now_ms)

    # ---- epochs and targets

    def begin_epoch(self, reason: str, now_ms: int) -> None:
        # The topics of this epoch are those of now, so that a target never mixes two states of the catalogue.
        self.refresh_topics()
        self.epoch += 1
        self.touch(RecordKind.GROUP)
        self._out.append(EpochNote(f"epoch {self.epoch}: {reason}", is_rebalance=True))
        self.assign(now_ms)

    def assign(self, now_ms: int) -> None:
        """Compute the target of this epoch, unless the last one was computed only just now."""
        # A burst of joins raises the epoch many times but is assigned once: `next_tick_ms` asks for the rest later.
        if self.epoch == self.assignment_epoch or not self.members or now_ms < self._assign_after_ms:
            return
        if not self.may_assign:
            return
        for member_id, target in self.computed_targets().items():
            # Unchanged targets need no record. In a large group most of them are unchanged.
            if target != self.targets[member_id]:
                self._target_count += len(target) - len(self.targets[member_id])
                self.targets[member_id] = target
                self.touch(RecordKind.TARGET, member_id)
        self.assignment_epoch = self.epoch
        self._assign_after_ms = now_ms + self.times.assignment_interval_ms
        self.touch(RecordKind.TARGET_EPOCH)

    # ---- holdings

    def reconcile(self, member: MemberT, owned: frozenset[HoldingT] | None, now_ms: int) -> bool:
        """Let the member take its next step, and record what it has. False if nothing changed."""
        locks_before = list(self.locks_of(member, member.held()))
        target = self.targets[member.member_id]
        # Most heartbeats change nothing: then there is no record to store, and the answer leaves at once.
        if not step(member, target, self.assignment_epoch, owned, lambda holding: self.is_free(member, holding)):
            return False
        self.release(locks_before)
        self.occupy(member)
        self._deadlines.watch_revocation(member, now_ms)
        self.touch(RecordKind.CURRENT, member.member_id)
        return True

    def is_free(self, member: MemberT, holding: HoldingT) -> bool:
        """Return True if no other member has a lock that this holding needs."""
        member_id = member.member_id
        return all(self.owners.get(lock, member_id) == member_id for lock in self.locks_of(member, (holding,)))

    def occupy(self, member: MemberT) -> None:
        self.owners.update(dict.fromkeys(self.locks_of(member, member.held()), member.member_id))

    def release(self, locks: Iterable[Hashable]) -> None:
        for lock in locks:
            del self.owners[lock]

    # ---- time and records

    def renew(self, member: MemberT, now_ms: int) -> None:
        """Renew the member's session."""
        self._deadlines.renew_session(member, self.times.session_timeout_ms, now_ms)

    def check_by(self, deadline_ms: int) -> None:
        """Ask for a tick at `deadline_ms`, or before it."""
        self._deadlines.check_by(deadline_ms)

    def touch(self, kind: RecordKind, member_id: str = "") -> None:
        # A dictionary, so that a record that changes twice in one event is stored once.
        self._touched[kind, member_id] = None

    def answer(self, ticket: int, reply: object) -> None:
        self._out.append(Answer(ticket, reply))

    def take_out(self) -> list[Any]:
        """The instructions of the event that has been handled."""
        if self._touched:
            self.count_footprints()
            # Records come before answers, so that the driver knows that the answers depend on them.
            self._out.insert(0, StoreRecords(tuple(sorted(self._touched))))
            self._touched.clear()
        out, self._out = self._out, []
        return out

    def retire(self) -> tuple[RecordKey, ...]:
        """The group ends: every record it may have is to be deleted. Only an empty group is ever retired."""
        assert not self.members
        self.is_dead = True
        # Records that a failed append left dirty may be on disk. They get tombstones, too.
        return tuple(sorted({*self._touched, *((kind, "") for kind in self.WHOLE_RECORDS)}))

    def check_invariants(self) -> None:
        assert self.assignment_epoch <= self.epoch
        assert self.targets.keys() == self.members.keys()
        holders = {
            lock: member.member_id for member in self.members.values() for lock in self.locks_of(member, member.held())
        }
        assert holders == self.owners
        assert self._target_count == sum(map(len, self.targets.values()))
        self._footprints.check_invariants(self.members)
        self._deadlines.check_invariants(self.members.values())
        for member in self.members.values():
            member.check_invariants()
