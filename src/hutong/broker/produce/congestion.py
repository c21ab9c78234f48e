"""Back-pressure on producers: while a partition group has too much unflushed, or is about to be led, they wait.

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
    from hutong.foundation.waiting.pending import Continuation
    from hutong.foundation.waiting.table import Owner, WaitTable
    from hutong.journal.journal import Journal


class Congestion:
    """The partition groups that take nothing just now, and the sessions that wait for them."""

    def __init__(self, journals: Mapping[str, Journal], waiting: WaitTable[None]) -> None:
        self.groups: set[str] = set()  # nearly always empty: the produce path looks here first
        self._congested: set[str] = set()
        self._paused: set[str] = set()
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

        self.when_clear(group, session.owner, caught_up)

    def when_clear(self, group: str, owner: Owner, then: Continuation[None]) -> None:
        """Call `then` with None once the group has caught up, or with the error that ends the wait.

        Raises LimitExceeded where too many wait.
        """
        self._waiting.park(group, then, owner=owner)

    def pause(self, group: str) -> None:
        """Let the producers of a group wait, until `go_on`."""
        self._paused.add(group)
        self._settle(group)

    def go_on(self, group: str) -> None:
        """Let them go on, if the group is not congested. Called again, it changes nothing."""
        self._paused.discard(group)
        self._settle(group)

    def _changed(self, group: str, is_congested: bool) -> None:
        (self._congested.add if is_congested else self._congested.discard)(group)
        self._settle(group)

    def _settle(self, group: str) -> None:
        if group in self._congested or group in self._paused:
            self.groups.add(group)
        else:
            self.groups.discard(group)
            self._waiting.resume_all(group, None)
