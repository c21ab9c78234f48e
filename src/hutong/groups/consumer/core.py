"""State of a consumer group, and the changes that all of its events are made of: members, epochs, targets, owners.

Strategy: `machine.py` decides which change an event makes. `members/classic_members.py` works on this class, so that it
does not import the machine.

Knows no events.
"""

from collections import Counter
from collections.abc import Iterable

from hutong.groups.consumer.assignment.assignors import ASSIGNORS, Subscriber
from hutong.groups.consumer.assignment.catalogue import TopicCatalogue
from hutong.groups.consumer.assignment.subscriptions import Subscriptions
from hutong.groups.consumer.members.deadlines import MemberDeadlines
from hutong.groups.consumer.members.member import PARTITION_BYTES, PATTERN_BYTES, ConsumerMember, step
from hutong.groups.consumer.messages import (
    JOINING,
    EpochNote,
    Instruction,
    Partition,
    RecordKey,
    RecordKind,
)
from hutong.groups.consumer.settings import ConsumerGroupSettings, GroupTimes
from hutong.groups.consumer.states import ConsumerGroupState
from hutong.groups.footprints import Footprints

_NO_PARTITIONS: frozenset[Partition] = frozenset()


class ConsumerGroupCore:
    """One group without its events. Each attribute without an underscore is for the modules named above."""

    __slots__ = (
        "_assign_after_ms",
        "_deadlines",
        "_footprints",
        "_out",
        "_settings",
        "_target_count",
        "_touched",
        "assignment_epoch",
        "catalogue",
        "epoch",
        "group_id",
        "is_dead",
        "members",
        "owners",
        "static_ids",
        "subscriptions",
        "targets",
        "times",
    )

    def __init__(
        self, group_id: str, catalogue: TopicCatalogue, settings: ConsumerGroupSettings, times: GroupTimes
    ) -> None:
        self.group_id = group_id
        self.catalogue = catalogue
        self.times = times
        self.epoch = 0  # never falls
        self.assignment_epoch = 0  # never falls, and never exceeds the group epoch
        self.members: dict[str, ConsumerMember] = {}
        self.static_ids: dict[str, str] = {}  # instance id -> member id
        self.targets: dict[str, frozenset[Partition]] = {}  # of members alone; disjoint
        self.owners: dict[Partition, str] = {}  # who holds what, given up or not: one member each
        self.subscriptions = Subscriptions(catalogue)
        self.is_dead = False
        self._settings = settings
        self._touched: dict[RecordKey, None] = {}  # records that are not as the group is
        self._assign_after_ms = 0  # no target is computed before this
        self._footprints = Footprints()
        self._target_count = 0  # of partitions in all targets
        self._deadlines = MemberDeadlines()
        self._out: list[Instruction] = []

    # ---- questions

    @property
    def state(self) -> ConsumerGroupState:
        if self.is_dead:
            return ConsumerGroupState.DEAD
        if not self.members:
            return ConsumerGroupState.EMPTY
        # The order is Kafka's: a group that still has to assign is not reconciling yet.
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_at(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def memory_bytes(self) -> int:
        """Approximate memory of the members: declarations, partitions and targets."""
        # Each partition is counted where it is kept: with its owner and in a target.
        partitions_bytes = PARTITION_BYTES * (len(self.owners) + self._target_count)
        return self._footprints.total_bytes + partitions_bytes + PATTERN_BYTES * self.subscriptions.pattern_count

    def footprint_bytes(self, member_id: str) -> int:
        """Bytes of one member's declaration; 0 for an unknown member."""
        return self._footprints.of(member_id)

    @property
    def members_max(self) -> int:
        return self._settings.members_max

    def may_give_more(self, member: ConsumerMember) -> bool:
        """Return True if a partition that the member waits for has become free."""
        # A partition is free once its last owner has revoked it. The member then has a reason to send another
        # heartbeat.
        missing = self.targets[member.member_id] - member.assigned.keys()
        return any(self._is_free(partition, member.member_id) for partition in missing)

    # ---- members

    def add(self, member: ConsumerMember) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id

    def count_footprints(self) -> None:
        for kind, member_id in self._touched:
            if kind is RecordKind.MEMBER:
                self._footprints.count(member_id, self.members.get(member_id))

    def count_targets(self) -> None:
        """Count again after targets have come from somewhere else than an assignment."""
        self._target_count = sum(map(len, self.targets.values()))

    def drop(self, member: ConsumerMember) -> None:
        member_id = member.member_id
        # Its partitions are free at once: a member that is gone can process no more records.
        self._target_count -= len(self.targets[member_id])
        self.release(member.held())
        self.subscribe(member, frozenset(), None)
        del self.members[member_id], self.targets[member_id]
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        # The member's records go with it: the driver writes tombstones for keys that the group no longer has.
        for kind in (RecordKind.MEMBER, RecordKind.TARGET, RecordKind.CURRENT):
            self.touch(kind, member_id)
        if not self.members:
            # The interval between assignments spares members needless moves. An empty group has none to spare.
            self._assign_after_ms = 0

    def rename(self, member: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member is back under a new id: everything that was kept for it is its own (KIP-345)."""
        old_id = member.member_id
        for kind in (RecordKind.MEMBER, RecordKind.TARGET, RecordKind.CURRENT):
            self.touch(kind, old_id)
            self.touch(kind, member_id)
        del self.members[old_id]
        member.member_id, member.epoch, member.previous_epoch = member_id, JOINING, -1
        self.members[member_id] = member
        self.targets[member_id] = self.targets.pop(old_id)
        # The instance keeps its partitions, so nothing is revoked and no other member notices.
        self.owners.update(dict.fromkeys(member.held(), member_id))
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member_id
        return member

    def subscribe(self, member: ConsumerMember, names: frozenset[str], regex: str | None) -> None:
        self.subscriptions.replace((member.topic_names, member.topic_regex), (names, regex))
        member.topic_names, member.topic_regex = names, regex

    # ---- epochs and targets

    def begin_epoch(self, reason: str, now_ms: int) -> None:
        # The topics of this epoch are those of now, so that a target never mixes two states of the catalogue.
        self.subscriptions.refresh()
        self.epoch += 1
        self.touch(RecordKind.GROUP)
        self._out.append(EpochNote(f"epoch {self.epoch}: {reason}", is_rebalance=True))
        self.assign(now_ms)

    def assign(self, now_ms: int) -> None:
        """Compute the target of this epoch, unless the last one was computed only just now."""
        # A burst of joins raises the epoch many times but is assigned once: `next_tick_ms` asks for the rest later.
        if self.epoch == self.assignment_epoch or not self.members or now_ms < self._assign_after_ms:
            return
        if not self._may_assign:
            return
        topics = self.subscriptions.topics
        subscribers = {
            member_id: Subscriber(
                self.subscriptions.topic_ids(member.topic_names, member.topic_regex),
                self.targets[member_id],
                member.instance_id,
            )
            for member_id, member in self.members.items()
        }
        # The assignors are pure and sticky: the same members and topics give the same target.
        targets = ASSIGNORS[self.assignor_name()](subscribers, topics)
        for member_id, target in targets.items():
            # Unchanged targets need no record. In a large group most of them are unchanged.
            if target != self.targets[member_id]:
                self._target_count += len(target) - len(self.targets[member_id])
                self.targets[member_id] = target
                self.touch(RecordKind.TARGET, member_id)
        self.assignment_epoch = self.epoch
        self._assign_after_ms = now_ms + self.times.assignment_interval_ms
        self.touch(RecordKind.TARGET_EPOCH)

    @property
    def _may_assign(self) -> bool:
        """False while a pattern is being matched, since its members would lose what they have; not so at first."""
        return not self.assignment_epoch or self.subscriptions.is_ready

    def assignor_name(self) -> str:
        """The assignor that most members ask for; the first of the settings if no member asks."""
        votes = Counter(member.server_assignor for member in self.members.values() if member.server_assignor)
        known = [name for name, _ in votes.most_common() if name in self._settings.assignors]
        return known[0] if known else self._settings.assignors[0]

    # ---- partitions

    def reconcile(self, member: ConsumerMember, owned: frozenset[Partition] | None, now_ms: int) -> None:
        """Let the member take its next step, and record the owners of its partitions."""
        held_before = list(member.held())
        target = self.targets[member.member_id]
        # Most heartbeats change nothing: then there is no record to store, and the answer leaves at once.
        if not step(member, target, self.assignment_epoch, owned, lambda at: self._is_free(at, member.member_id)):
            return
        self.release(held_before)
        self.owners.update(dict.fromkeys(member.held(), member.member_id))
        self._deadlines.watch_revocation(member, now_ms)
        self.touch(RecordKind.CURRENT, member.member_id)

    def _is_free(self, partition: Partition, member_id: str) -> bool:
        return self.owners.get(partition, member_id) == member_id

    def release(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            del self.owners[partition]

    # ---- time and records

    def renew(self, member: ConsumerMember, now_ms: int) -> None:
        """Renew the member's session."""
        self._deadlines.renew_session(member, self.times.session_timeout_ms, now_ms)

    def check_by(self, deadline_ms: int) -> None:
        """Ask for a tick at `deadline_ms`, or before it."""
        self._deadlines.check_by(deadline_ms)

    def touch(self, kind: RecordKind, member_id: str = "") -> None:
        # A dictionary, so that a record that changes twice in one event is stored once.
        self._touched[kind, member_id] = None
