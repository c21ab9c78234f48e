"""The promises of streams: items arrive in order, none twice, none skipped; and nothing is left of one that has ended.

Strategy: items are numbers from 0 on, so what was read is right or not by itself. In the end no caller is connected any
more, so the service's latest process may have no stream open.
"""

from collections.abc import Iterator
from typing import Final

from hutong.testing.simulation.call_history import CallCarriedOut, CallerClosed, StreamClosed, StreamOpened, StreamRead
from hutong.testing.simulation.checkers.call_checker import CLOSED, IN_DOUBT, NOTHING_HAPPENED
from hutong.testing.simulation.clients.caller import LEFT
from hutong.testing.simulation.history import SimulationHistory

_REASONS: Final = IN_DOUBT | NOTHING_HAPPENED | {"", LEFT, "OutcomeUnknown"}
"""The last where the service closed it, as its node stopped."""


def check_streams(history: SimulationHistory) -> list[str]:
    """The promises that were broken, a sentence for each."""
    errors: list[str] = []
    opened: dict[str, StreamOpened] = {}
    closers: set[str] = set()
    process = ""
    for each in history.happenings:
        match each:
            case CallCarriedOut():
                process = _process_of(each.number)
            case StreamOpened():
                process = _process_of(each.number)
                opened[each.number] = each
            case StreamClosed():
                opened.pop(each.number, None)
            case CallerClosed():
                closers.add(each.client)
            case StreamRead():
                errors += _read(each, has_closed=each.client in closers)
    # A process that died has taken its streams with it.
    left = [each for each in opened.values() if _process_of(each.number) == process]
    return [*errors, *(f"the stream {each.name} is open in the end, as {each.number}" for each in left)]


def _read(read: StreamRead, *, has_closed: bool) -> Iterator[str]:
    if list(read.items) != [*range(len(read.items))]:
        wrong = next(place for place, item in enumerate(read.items) if place != item)
        yield f"{read.client} read item {read.items[wrong]} of the stream {read.name} in the place of {wrong}"
    if not read.error and len(read.items) < read.expected:
        yield f"the stream {read.name} ended after {len(read.items)} of {read.expected} items"
    # A client that was closed ends its streams by its own error.
    elif read.error not in _REASONS and not (has_closed and read.error == CLOSED):
        yield f"the stream {read.name} failed with {read.error}, for which there was no reason"


def _process_of(number: str) -> str:
    return number.rpartition(".")[0]
