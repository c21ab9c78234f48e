"""Back-pressure on producers: while a partition group has too much unflushed, its producers wait.

Strategy: the request is held where it is, in the connection, which is then no longer read: so the client feels it
through TCP, nothing is dropped or refused, and what waits is bounded by the connections. When the group has caught up,
those who wait go on in the order in which they came.

Knows nothing of records. The journal says when it is congested, the reactor keeps held requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hutong.broker.handling.session import ClientSession
    from hutong.foundation.errors import HutongError
    from hutong.foundation.waiting.table import WaitTable
    from hutong.journal.journal import Journal


class Congestion:
    """The congested partition groups, and the sessions that wait for them."""

    def __init__(self, journals: Mapping[str, Journal], waiting: WaitTable[None]) -> None:
        self.groups: set[str] = set()  # nearly always empty: the produce path looks here first
        self._waiting = waiting
        for group, journal in journals.items():
            self.watch(group, journal)

    def watch(self, group: str, journal: Journal) -> None:
        """Hear of a journal's congestion: once for each time that it is opened."""
        journal.watch_congestion(lambda is_congested: self._changed(group, is_congested))

    def hold(self, group: str, session: ClientSession) -> None:
        """Release the session once the group has caught up."""

        def caught_up(_outcome: HutongError | None) -> None:
            session.release()

        self._waiting.park(group, caught_up, owner=session.owner)

    def _changed(self, group: str, is_congested: bool) -> None:
        if is_congested:
            self.groups.add(group)
        else:
            self.groups.discard(group)
            self._waiting.resume_all(group, None)
