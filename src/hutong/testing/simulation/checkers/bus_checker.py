"""The promises of the event bus: the messages of one sender to one address arrive in their order, none of them twice.

Strategy: linear in the history. A connection of a sender numbers its messages, and within a connection of a receiver
the numbers from one address rise. Messages may be lost with either connection, or where a receiver reads too slowly.
"""

from collections.abc import Iterator

from hutong.testing.simulation.call_history import BusMessageReceived, BusMessageSent
from hutong.testing.simulation.history import SimulationHistory

_Message = tuple[str, int, int]
"""Sender, its session, and the number."""


def check_bus(history: SimulationHistory) -> list[str]:
    """The promises that were broken, a sentence for each."""
    check = _BusCheck()
    errors: list[str] = []
    for each in history.happenings:
        match each:
            case BusMessageSent():
                check.sent[(each.client, each.session, each.number)] = each
            case BusMessageReceived():
                errors += check.received(each)
    return errors


class _BusCheck:
    def __init__(self) -> None:
        self.sent: dict[_Message, BusMessageSent] = {}
        self._taken: dict[_Message, str] = {}  # the receivers of messages that are for one
        self._last: dict[tuple[str, int, str, int, str], int] = {}

    def received(self, got: BusMessageReceived) -> Iterator[str]:
        message = (got.sender, got.sender_session, got.number)
        name = f"{got.sender} {got.sender_session}/{got.number}"
        sent = self.sent.get(message)
        if sent is None or sent.address != got.address:
            yield f"{got.client} received {name} at {got.address}, where nobody had sent it"
            return
        # By connections on both sides: a new one of the receiver is a new listener.
        key = (got.client, got.session, got.sender, got.sender_session, got.address)
        if got.number <= self._last.get(key, 0):
            yield f"{got.client} received {name} at {got.address} after {self._last[key]}"
        self._last[key] = got.number
        # A publication is for everybody.
        if not sent.is_publication and self._taken.setdefault(message, got.client) != got.client:
            yield f"{got.client} received {name} at {got.address}, and so did {self._taken[message]}"
