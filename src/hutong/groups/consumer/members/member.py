"""One member of a consumer group: its declaration, its partitions, and its next step towards its target.

Strategy: a member moves from epoch to epoch. First it revokes the partitions that are not in its target, and confirms
that in a heartbeat. Only then it enters the target's epoch, with the partitions it keeps and with those new ones that
are free. So every partition has one owner at any time, and a slow member delays only the partitions it must revoke.

      STABLE ── must revoke partitions ──> UNREVOKED ── has confirmed ──┐
         ^                                                              v
         └────────── all of its target is free ──────────────────── UNRELEASED

Each partition carries the epoch in which its member got it: a member that is some epochs behind may commit a partition
that it had then (KIP-1251).

Knows nothing of time, of other members, or of the computation of targets.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from hutong.groups.consumer.messages import (
    ClassicSpeech,
    ConsumerMemberDescription,
    Partition,
    StoredCurrent,
)
from hutong.groups.consumer.record_tables import ClassicMemberMetadata, MemberValue


class MemberState(IntEnum):
    """Kafka's numbers, as they are stored."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


MEMBER_BYTES: Final = 2_000
PARTITION_BYTES: Final = 200  # for each table that it is in: assigned, targets
_NAME_BYTES: Final = 200  # a name is a string and its place in the member's set, the group's counter, and a record
PATTERN_BYTES: Final = 256 * 1024  # compiled, once for each group that reads by it


def declared_bytes(
    topics: Collection[str],
    regex: str | None,
    words: Iterable[str | None],
    protocols: Iterable[tuple[str, bytes]] = (),
) -> int:
    """Approximate memory of topic names, a pattern, other strings, and the metadata of a classic member."""
    pattern_bytes = 2 * len(regex or "")
    names_bytes = sum(map(len, topics)) * 2 + _NAME_BYTES * len(topics)
    words_bytes = 2 * sum(len(word) for word in words if word)
    return (
        pattern_bytes + names_bytes + words_bytes + sum(2 * (len(name) + len(metadata)) for name, metadata in protocols)
    )


@dataclass(slots=True)
class ConsumerMember:
    """`epoch` is what the member is expected to say; `previous_epoch` what it may still say if a reply was lost."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: dict[Partition, int] = field(default_factory=dict)  # partition -> epoch in which it was given
    revoking: dict[Partition, int] = field(default_factory=dict)  # to be given up; not empty exactly in UNREVOKED
    session_deadline_ms: int | None = None
    revocation_deadline_ms: int | None = None  # set exactly in UNREVOKED
    classic: ClassicSpeech | None = None  # None for a member of the protocol of KIP-848
    join_deadline_ms: int | None = None  # of a classic member that has to join again

    @classmethod
    def restored(cls, member_id: str, stored: MemberValue, current: StoredCurrent | None) -> "ConsumerMember":
        """The member of a record, without its subscription: the group follows that itself."""
        member = cls(
            member_id=member_id,
            instance_id=stored.instance_id,
            rack_id=stored.rack_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            server_assignor=stored.server_assignor,
            classic=None if stored.classic is None else _classic_speech(stored.classic),
        )
        if current is not None:
            member.epoch, member.previous_epoch = current.epoch, current.previous_epoch
            member.state = MemberState(current.state)
            member.assigned, member.revoking = dict(current.assigned), dict(current.revoking)
        return member

    def held(self) -> Iterable[Partition]:
        """The partitions that no other member may have now."""
        yield from self.assigned
        yield from self.revoking

    def is_at(self, target_epoch: int) -> bool:
        """Return True if the member has reached this target."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def epoch_given(self, partition: Partition) -> int | None:
        """The epoch in which it got a partition that it still holds."""
        epoch = self.assigned.get(partition)
        return self.revoking.get(partition) if epoch is None else epoch

    def enter(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.previous_epoch, self.epoch = self.epoch, epoch

    @property
    def deadline_ms(self) -> int:
        """The earliest deadline of the member."""
        deadlines = (self.session_deadline_ms, self.revocation_deadline_ms, self.join_deadline_ms)
        return min(deadline for deadline in deadlines if deadline is not None)

    def declaration(self) -> tuple[object, ...]:
        """Everything that the member declares: a change of it needs a record."""
        return (
            self.rack_id,
            self.rebalance_timeout_ms,
            self.server_assignor,
            self.client_id,
            self.client_host,
            self.topic_names,
            self.topic_regex,
            self.classic,
        )

    def describe(self, target: frozenset[Partition]) -> ConsumerMemberDescription:
        return ConsumerMemberDescription(
            member_id=self.member_id,
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            epoch=self.epoch,
            client_id=self.client_id,
            client_host=self.client_host,
            topic_names=self.topic_names,
            topic_regex=self.topic_regex,
            assigned=frozenset(self.assigned),
            target=target,
            is_classic=self.classic is not None,
        )

    @property
    def footprint_bytes(self) -> int:
        """Approximate memory of its declaration, and of the record of it."""
        return MEMBER_BYTES + declared_bytes(
            self.topic_names,
            self.topic_regex,
            (self.member_id, self.instance_id, self.rack_id, self.client_id, self.client_host),
            () if self.classic is None else self.classic.protocols,
        )

    def check_invariants(self) -> None:
        assert bool(self.revoking) == (self.state is MemberState.UNREVOKED)
        assert not self.assigned.keys() & self.revoking.keys()
        assert (self.revocation_deadline_ms is not None) == (self.state is MemberState.UNREVOKED)


def _classic_speech(stored: ClassicMemberMetadata) -> ClassicSpeech:
    protocols = tuple((each.name, each.metadata) for each in stored.supported_protocols)
    return ClassicSpeech(stored.session_timeout_ms, protocols)


def step(
    member: ConsumerMember,
    target: frozenset[Partition],
    target_epoch: int,
    owned: frozenset[Partition] | None,
    is_free: Callable[[Partition], bool],
) -> bool:
    """Take a member's next step. False if nothing changed.

    `owned` are the partitions that it confirms, None if it sent none; `is_free` is True for a partition without another
    owner.
    """
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return False
    # Others wait for these partitions: no step before the client has confirmed that it reads none of them.
    if member.state is MemberState.UNREVOKED and _still_has(member.revoking, owned):
        return False
    before = (member.epoch, member.state, member.assigned, member.revoking)
    kept = {partition: epoch for partition, epoch in member.assigned.items() if partition in target}
    to_revoke = {partition: epoch for partition, epoch in member.assigned.items() if partition not in target}
    # The epoch stays until the revocation is confirmed, so that the member may still commit those partitions.
    if to_revoke and _still_has(to_revoke, owned):
        member.assigned, member.revoking, member.state = kept, to_revoke, MemberState.UNREVOKED
        return before != (member.epoch, member.state, member.assigned, member.revoking)
    missing = [partition for partition in target if partition not in kept]
    # Those that another member still holds come later, with the next step.
    free = {partition: target_epoch for partition in missing if is_free(partition)}
    member.assigned, member.revoking = kept | free, {}
    member.state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED
    member.enter(target_epoch)
    return before != (member.epoch, member.state, member.assigned, member.revoking)


def _still_has(to_revoke: Iterable[Partition], owned: frozenset[Partition] | None) -> bool:
    """Return True if it has any of them. A member that sends no partitions counts as one that has them all."""
    return owned is None or any(partition in owned for partition in to_revoke)
