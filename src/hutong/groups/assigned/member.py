"""One member of a group in which the broker assigns: its epochs, its holdings, and its next step towards its target.

Strategy: a member moves from epoch to epoch. First it revokes the holdings that are not in its target, and confirms
that in a heartbeat. Only then it enters the target's epoch, with what it keeps and with those new holdings that are
free. So every holding has one owner at any time, and a slow member delays only what it must revoke.

      STABLE ── must revoke ──> UNREVOKED ── has confirmed ──┐
         ^                                                   v
         └──────── all of its target is free ────────── UNRELEASED

Each holding carries the epoch in which its member got it: a member that is some epochs behind may commit what it had
then (KIP-1251).

Knows nothing of time, of other members, or of the computation of targets.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Generic

from hutong.groups.assigned.messages import HoldingT, StoredCurrent


class MemberState(IntEnum):
    """Kafka's numbers, as they are stored."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


MEMBER_BYTES: Final = 2_000
HOLDING_BYTES: Final = 200  # for each table that it is in: assigned, targets


@dataclass(slots=True)
class AssignedMember(Generic[HoldingT]):
    """`epoch` is what the member is expected to say; `previous_epoch` what it may still say if a reply was lost."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: dict[HoldingT, int] = field(default_factory=dict)  # holding -> epoch in which it was given
    revoking: dict[HoldingT, int] = field(default_factory=dict)  # to be given up; not empty exactly in UNREVOKED
    session_deadline_ms: int | None = None
    revocation_deadline_ms: int | None = None  # set exactly in UNREVOKED

    def restore(self, current: StoredCurrent[HoldingT] | None) -> None:
        """Take over what is stored; None if nothing is."""
        if current is not None:
            self.epoch, self.previous_epoch = current.epoch, current.previous_epoch
            self.state = MemberState(current.state)
            self.assigned, self.revoking = dict(current.assigned), dict(current.revoking)

    @property
    def is_classic(self) -> bool:
        """Return True for a member that speaks the classic protocol."""
        return False

    def held(self) -> Iterable[HoldingT]:
        """The holdings that no other member may have now."""
        yield from self.assigned
        yield from self.revoking

    def is_at(self, target_epoch: int) -> bool:
        """Return True if the member has reached this target."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def epoch_given(self, holding: HoldingT) -> int | None:
        """The epoch in which it got a holding that it still has."""
        epoch = self.assigned.get(holding)
        return self.revoking.get(holding) if epoch is None else epoch

    def enter(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.previous_epoch, self.epoch = self.epoch, epoch

    def session_timeout_ms(self, of_group_ms: int) -> int:
        """The silence after which it is removed."""
        return of_group_ms

    @property
    def footprint_bytes(self) -> int:
        """Approximate memory of its declaration, and of the record of it."""
        raise NotImplementedError

    @property
    def deadlines_ms(self) -> tuple[int | None, ...]:
        return self.session_deadline_ms, self.revocation_deadline_ms

    @property
    def deadline_ms(self) -> int:
        """The earliest deadline of the member."""
        return min(deadline for deadline in self.deadlines_ms if deadline is not None)

    def check_invariants(self) -> None:
        assert bool(self.revoking) == (self.state is MemberState.UNREVOKED)
        assert not self.assigned.keys() & self.revoking.keys()
        assert (self.revocation_deadline_ms is not None) == (self.state is MemberState.UNREVOKED)


def step(
    member: AssignedMember[HoldingT],
    target: frozenset[HoldingT],
    target_epoch: int,
    owned: Collection[HoldingT] | None,
    is_free: Callable[[HoldingT], bool],
) -> bool:
    """Take a member's next step. False if nothing changed.

    `owned` are the holdings that it confirms, None if it sent none; `is_free` is True for a holding without another
    owner.
    """
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return False
    # Others wait for these holdings: no step before the client has confirmed that it uses none of them.
    if member.state is MemberState.UNREVOKED and _still_has(member.revoking, owned):
        return False
    before = (member.epoch, member.state, member.assigned, member.revoking)
    kept = {holding: epoch for holding, epoch in member.assigned.items() if holding in target}
    to_revoke = {holding: epoch for holding, epoch in member.assigned.items() if holding not in target}
    # The epoch stays until the revocation is confirmed, so that the member may still commit those holdings.
    if to_revoke and _still_has(to_revoke, owned):
        member.assigned, member.revoking, member.state = kept, to_revoke, MemberState.UNREVOKED
        return before != (member.epoch, member.state, member.assigned, member.revoking)
    missing = [holding for holding in target if holding not in kept]
    # Those that another member still holds come later, with the next step.
    free = {holding: target_epoch for holding in missing if is_free(holding)}
    member.assigned, member.revoking = kept | free, {}
    member.state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED
    member.enter(target_epoch)
    return before != (member.epoch, member.state, member.assigned, member.revoking)


def _still_has(to_revoke: Iterable[HoldingT], owned: Collection[HoldingT] | None) -> bool:
    """Return True if it has any of them. A member that sends nothing counts as one that has them all."""
    return owned is None or any(holding in owned for holding in to_revoke)
