"""The promises of the event bus: messages of a sender to an address arrive in order, none twice, and none is skipped.

Strategy: linear in the history. A connection of a sender numbers its messages, and within a connection of a receiver
the numbers from one address rise. Between two that arrived there is no publication that did not: where a client reads
too slowly, its connection ends.
"""

from bisect import bisect_right
from collections import defaultdict
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
                check.begun(each)
            case BusMessageReceived():
                errors += check.received(each)
    return errors


class _BusCheck:
    def __init__(self) -> None:
        self._sent: dict[_Message, BusMessageSent] = {}
        self._published: dict[tuple[str, int, str], list[int]] = defaultdict(list)  # by sender, session, address
        self._taken: dict[_Message, str] = {}  # the receivers of messages that are for one
        self._last: dict[tuple[str, int, str, int, str], int] = {}

    def begun(self, sent: BusMessageSent) -> None:
        self._sent[(sent.client, sent.session, sent.number)] = sent
        if sent.is_publication:
            self._published[(sent.client, sent.session, sent.address)].append(sent.number)

    def received(self, got: BusMessageReceived) -> Iterator[str]:
        message = (got.sender, got.sender_session, got.number)
        name = f"{got.sender} {got.sender_session}/{got.number}"
        sent = self._sent.get(message)
        if sent is None or sent.address != got.address:
            yield f"{got.client} received {name} at {got.address}, where nobody had sent it"
            return
        # By connections on both sides: a new one of the receiver is a new listener.
        key = (got.client, got.session, got.sender, got.sender_session, got.address)
        last = self._last.get(key)
        if last is not None:
            yield from self._in_order(got, name, last)
        self._last[key] = got.number
        # A publication is for everybody.
        if not sent.is_publication and self._taken.setdefault(message, got.client) != got.client:
            yield f"{got.client} received {name} at {got.address}, and so did {self._taken[message]}"

    def _in_order(self, got: BusMessageReceived, name: str, last: int) -> Iterator[str]:
        if got.number <= last:
            yield f"{got.client} received {name} at {got.address} after {last}"
            return
        published = self._published[(got.sender, got.sender_session, got.address)]
        following = bisect_right(published, last)
        # Messages for one listener may have gone to another.
        if following < len(published) and published[following] < got.number:
            skipped = f"{got.sender} {got.sender_session}/{published[following]}"
            yield f"{got.client} received {name} at {got.address}, and {skipped} was skipped"
