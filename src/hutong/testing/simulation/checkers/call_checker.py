"""The promises of calls: how often each is carried out, whose answer it gets, and that it ends, once and in time.

Strategy: linear in the history. A call that may be sent once is carried out once at most, one that may be sent n times
n times at most. An error that says that nothing happened is believed: such a call is never carried out, not later
either. An answer names its call and an execution of it.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from hutong.testing.simulation.call_history import (
    CallAbandoned,
    CallAnswered,
    CallBegun,
    CallCarriedOut,
    CallerClosed,
    CallUnanswered,
)
from hutong.testing.simulation.history import Happening, SimulationHistory

NOTHING_HAPPENED: Final = frozenset({"NoService", "NotConnected", "NotExecuted", "Overloaded", "RequestExpired"})
"""Errors that say so (`hutong.rpc.errors`)."""
IN_DOUBT: Final = frozenset({"CallTimeout", "ConnectionLost", "OutcomeUnknown"})
RESULT_NOT_KEPT: Final = "ResultNotKept"
CLOSED: Final = "CallFailed"
"""For calls that wait for a connection while their client is closed."""
LATE_SHARE: Final = 8
LATE_US: Final = 50_000
"""A call ends at most an eighth of its timeout and 40 ms late, as waits are grouped; 10 ms are for its loop."""


def check_calls(history: SimulationHistory) -> list[str]:
    """The promises that were broken, a sentence for each."""
    check = _CallCheck()
    errors = [error for each in history.happenings for error in check.happened(each)]
    return [*errors, *check.at_the_end(history.world.now_us)]


class _CallCheck:
    def __init__(self) -> None:
        self._begun: dict[str, CallBegun] = {}
        self._executions: dict[str, list[str]] = {}  # numbers by the name of the call, oldest first
        self._ends: dict[str, CallAnswered | CallUnanswered | CallAbandoned] = {}
        self._closed_us: dict[str, int] = {}  # the latest time, by client

    def happened(self, each: Happening) -> Iterable[str]:
        match each:
            case CallBegun():
                self._begun[each.name] = each
            case CallCarriedOut():
                return self._carried_out(each)
            case CallAnswered() | CallUnanswered() | CallAbandoned():
                return self._ended(each)
            case CallerClosed():
                self._closed_us[each.client] = each.at_us
        return ()

    def at_the_end(self, now_us: int) -> Iterator[str]:
        for name, begun in self._begun.items():
            # One of the last moments may still end within its time.
            if name not in self._ends and now_us > _latest_end_us(begun):
                yield f"{name} has not ended {(now_us - begun.at_us) / 1e6:.3f} s after it began"

    def _carried_out(self, execution: CallCarriedOut) -> Iterator[str]:
        name = execution.name
        begun, end = self._begun.get(name), self._ends.get(name)
        # Made up by the node, or damaged on its way.
        if begun is None:
            yield f"{name} was carried out, and nobody had called it"
            return
        numbers = self._executions.setdefault(name, [])
        numbers.append(execution.number)
        if len(numbers) > begun.attempts_max:
            yield f"{name} was carried out {len(numbers)} times, and {begun.attempts_max} attempts were allowed"
        # A frame that was still on its way when the caller gave up.
        if isinstance(end, CallUnanswered) and end.error in NOTHING_HAPPENED:
            yield f"{name} was carried out after {end.error} had said that nothing happened"

    def _ended(self, end: CallAnswered | CallUnanswered | CallAbandoned) -> Iterator[str]:
        name = end.name
        begun, before = self._begun[name], self._ends.setdefault(name, end)
        # Its end may be on its way to a caller that gives the call up: harmless.
        if before is not end and isinstance(end, CallAbandoned):
            return
        if before is not end:
            yield f"{name} has ended twice: {before}, then {end}"
            return
        if end.at_us > _latest_end_us(begun):
            yield f"{name} ended {(end.at_us - begun.at_us) / 1e3:.3f} ms after it began"
        if isinstance(end, CallAnswered):
            yield from self._answered(end)
        elif isinstance(end, CallUnanswered):
            yield from self._failed(begun, end)

    def _answered(self, end: CallAnswered) -> Iterator[str]:
        if end.answer != end.name:
            yield f"{end.name} got the answer of {end.answer}"
        elif end.number not in self._executions.get(end.name, ()):
            yield f"{end.name} succeeded, and was not carried out as {end.number}"

    def _failed(self, begun: CallBegun, end: CallUnanswered) -> Iterator[str]:
        if end.error in NOTHING_HAPPENED:
            if end.name in self._executions:
                yield f"{end.name} was carried out before {end.error} said that nothing happened"
        # By a memory that has no room for the result.
        elif end.error == RESULT_NOT_KEPT:
            if end.name not in self._executions:
                yield f"{end.name} was not carried out, although {end.error} said so"
        elif end.error == CLOSED and self._closed_us.get(end.client, -1) >= begun.at_us:
            return
        elif end.error not in IN_DOUBT:
            yield f"{end.name} failed with {end.error}, for which there was no reason"


def _latest_end_us(begun: CallBegun) -> int:
    timeout_us = begun.timeout_ms * 1_000
    return begun.at_us + timeout_us + timeout_us // LATE_SHARE + LATE_US
