"""Session time-outs of the members of one classic group.

Strategy: deadlines lie on the members themselves and `next_tick_ms` is a lower bound of them all. Renewing a lease, by
far the most frequent thing, moves one number; only when the bound is reached are all leases looked at and a new one
found.

Knows nothing of states or barriers: the machine decides what silence means.
"""

from hutong.groups.classic.membership.member_table import ClassicMember, MemberTable


class SessionLeases:
    """SessionLeases of a table's members, and of the ids it has handed out but not yet seen used."""

    __slots__ = ("_table", "next_tick_ms")

    def __init__(self, table: MemberTable) -> None:
        self._table = table
        self.next_tick_ms: int | None = None  # nothing lapses before this; None while there is nothing to lapse

    def renew(self, member: ClassicMember, now_ms: int) -> None:
        self.set_deadline(member, now_ms + member.session_timeout_ms)

    def set_deadline(self, member: ClassicMember, deadline_ms: int) -> None:
        member.session_deadline_ms = deadline_ms
        self._check_by(deadline_ms)

    def await_use(self, member_id: str, deadline_ms: int) -> None:
        """Keep a handed-out id until then (KIP-394)."""
        self._table.pending[member_id] = deadline_ms
        self._check_by(deadline_ms)

    def lapse(self, now_ms: int) -> list[ClassicMember]:
        """Forget lapsed ids, and return the members whose lease has ended, oldest first.

        A member whose own request is parked here is not silent: its answer will renew the lease.
        """
        table = self._table
        for member_id in [member_id for member_id, deadline_ms in table.pending.items() if deadline_ms <= now_ms]:
            del table.pending[member_id]
        lapsed = []
        deadlines_ms = list(table.pending.values())
        for member in table.members.values():
            if member.session_deadline_ms is None:
                continue
            if member.session_deadline_ms > now_ms:
                deadlines_ms.append(member.session_deadline_ms)
            elif member.is_parked_here:
                member.session_deadline_ms = None
            else:
                lapsed.append(member)
        self.next_tick_ms = min(deadlines_ms, default=None)
        return lapsed

    def check_invariants(self) -> None:
        deadlines_ms = list(self._table.pending.values())
        for member in self._table.members.values():
            assert member.session_deadline_ms is not None or member.is_parked_here
            if member.session_deadline_ms is not None:
                deadlines_ms.append(member.session_deadline_ms)
        assert not deadlines_ms or (self.next_tick_ms is not None and self.next_tick_ms <= min(deadlines_ms))

    def _check_by(self, deadline_ms: int) -> None:
        if self.next_tick_ms is None or deadline_ms < self.next_tick_ms:
            self.next_tick_ms = deadline_ms
