"""Session and revocation time-outs of the members of one group.

Strategy: each member has its own deadlines, and `next_tick_ms` is a lower bound of all of them. Renewing a session, by
far the most frequent change, moves one number. Only when the bound is reached are all members checked.

Knows nothing of epochs: the group decides what an expired deadline means.
"""

from collections.abc import Iterable
from typing import TypeVar

from hutong.groups.assigned.member import AssignedMember, MemberState

MemberT = TypeVar("MemberT", bound=AssignedMember)  # type: ignore[type-arg]


class MemberDeadlines:
    __slots__ = ("next_tick_ms",)

    def __init__(self) -> None:
        self.next_tick_ms: int | None = None  # nothing expires before this; None while nothing can expire

    def renew_session(self, member: MemberT, session_timeout_ms: int, now_ms: int) -> None:
        member.session_deadline_ms = now_ms + member.session_timeout_ms(session_timeout_ms)
        self.check_by(member.session_deadline_ms)

    def watch_revocation(self, member: MemberT, now_ms: int) -> None:
        """Give a member its own rebalance time-out to revoke what it must, since other members wait for it."""
        if member.state is not MemberState.UNREVOKED:
            member.revocation_deadline_ms = None
        elif member.revocation_deadline_ms is None:
            member.revocation_deadline_ms = now_ms + max(member.rebalance_timeout_ms, 0)
            self.check_by(member.revocation_deadline_ms)

    def check_by(self, deadline_ms: int) -> None:
        """Expect a deadline at `deadline_ms`."""
        if self.next_tick_ms is None or deadline_ms < self.next_tick_ms:
            self.next_tick_ms = deadline_ms

    def expired(self, members: Iterable[MemberT], now_ms: int) -> list[MemberT]:
        """The members of which a deadline has passed. Before the bound is reached no member is looked at."""
        if self.next_tick_ms is None or now_ms < self.next_tick_ms:
            return []
        members = list(members)
        alive_ms = [member.deadline_ms for member in members if member.deadline_ms > now_ms]
        self.next_tick_ms = min(alive_ms, default=None)
        return [member for member in members if member.deadline_ms <= now_ms]

    def check_invariants(self, members: Iterable[MemberT]) -> None:
        assert all(self.next_tick_ms is not None and self.next_tick_ms <= member.deadline_ms for member in members)
