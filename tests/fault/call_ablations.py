"""The safeguards of the memory of calls, each with a way to switch it off.

Strategy: as for the journal (tests/fault/ablations.py): a patch replaces one safeguard by what somebody might have
written who had not thought of it. Histories, always the same ones, are run until one of them breaks; where a fault must
meet a rare state, the transcript that was written for it is run instead.

python -m tests.fault.call_ablations    prints for each how many histories it took
"""

from typing import Any, Final

import pytest
from tests.fault.ablation_search import Safeguard, histories_until_broken, print_safeguards
from tests.fault.call_history import CallHistory
from tests.unit.rpc.delivery import test_memory as transcripts

from hutong.foundation.machine import Tick
from hutong.rpc.delivery.machine import CallMemoryMachine
from hutong.rpc.delivery.messages import (
    HORIZON,
    Asked,
    CallRecord,
    CallRefusal,
    Execute,
    Fingerprint,
    Known,
    Reason,
    Replayed,
    SessionRecord,
)

HISTORIES_MAX: Final = 2_000
STEPS_MAX: Final = 60


def _stores_but_does_not_wait(patch: pytest.MonkeyPatch, known: tuple[Known, ...]) -> None:
    send = CallMemoryMachine._send

    def hasty(self: CallMemoryMachine, purpose: Any) -> None:
        record = purpose.changes[0][1]
        if isinstance(record, CallRecord) and record.known in known:
            then = purpose.then
            purpose = type(purpose)(purpose.changes, lambda: None, lambda: None, purpose.session)
            send(self, purpose)
            then()
        else:
            send(self, purpose)

    patch.setattr(CallMemoryMachine, "_send", hasty)


def executes_before_the_start_is_stored(patch: pytest.MonkeyPatch) -> None:
    _stores_but_does_not_wait(patch, (Known.STARTED,))


def answers_before_the_outcome_is_stored(patch: pytest.MonkeyPatch) -> None:
    _stores_but_does_not_wait(patch, (Known.FINISHED, Known.NOT_KEPT))


def executes_again_what_was_begun_before_a_restart(patch: pytest.MonkeyPatch) -> None:
    replay = CallMemoryMachine._replay

    def forgetful(self: CallMemoryMachine, event: Replayed) -> None:
        if not (isinstance(event.record, CallRecord) and event.record.known is Known.STARTED):
            replay(self, event)

    patch.setattr(CallMemoryMachine, "_replay", forgetful)


def executes_what_is_in_progress(patch: pytest.MonkeyPatch) -> None:
    asked = CallMemoryMachine._asked

    def eager(self: CallMemoryMachine, event: Asked) -> None:
        session = self._sessions.get(event.call.session)
        is_running = session is not None and event.call.sequence in session.open
        asked(self, event)
        if is_running:
            self._out.append(Execute(event.ticket, event.call))

    patch.setattr(CallMemoryMachine, "_asked", eager)


def executes_what_is_acknowledged(patch: pytest.MonkeyPatch) -> None:
    asked = CallMemoryMachine._asked

    def trusting(self: CallMemoryMachine, event: Asked) -> None:
        session = self._sessions.get(event.call.session)
        below = session.acked_below if session else 0
        if session is not None and event.call.sequence not in session.calls:
            session.acked_below = 0
        asked(self, event)
        if session is not None:
            session.acked_below = max(below, session.acked_below)

    patch.setattr(CallMemoryMachine, "_asked", trusting)


def deletes_before_the_acknowledgement_is_stored(patch: pytest.MonkeyPatch) -> None:
    def hasty(self: CallMemoryMachine, session: Any) -> None:
        self._saved(session, session.acked_below)

    patch.setattr(CallMemoryMachine, "_save", hasty)


def believes_sessions_of_any_age(patch: pytest.MonkeyPatch) -> None:
    stranger = CallMemoryMachine._stranger

    def credulous(self: CallMemoryMachine, name: str, event: Asked) -> CallRefusal | None:
        refusal = stranger(self, name, event)
        return None if refusal is not None and refusal.reason is Reason.EXPIRED else refusal

    patch.setattr(CallMemoryMachine, "_stranger", credulous)


def forgets_without_a_guard(patch: pytest.MonkeyPatch) -> None:
    store_in_turn = CallMemoryMachine._store_in_turn

    def unguarded(self: CallMemoryMachine, steps: list[Any]) -> None:
        store_in_turn(self, [tuple(c for c in step if not isinstance(c[1], SessionRecord)) for step in steps])

    patch.setattr(CallMemoryMachine, "_store_in_turn", unguarded)


def forgets_with_all_at_once(patch: pytest.MonkeyPatch) -> None:
    def at_once(self: CallMemoryMachine, steps: list[Any]) -> None:
        for step in steps:
            self._store(step, lambda: None)

    patch.setattr(CallMemoryMachine, "_store_in_turn", at_once)


def keeps_the_horizon_for_itself(patch: pytest.MonkeyPatch) -> None:
    """With the clock that callers are judged by going back, only the stored horizon refuses them."""
    send = CallMemoryMachine._send

    def silent(self: CallMemoryMachine, purpose: Any) -> None:
        changes = tuple(change for change in purpose.changes if change[0] is not HORIZON)
        send(self, type(purpose)(changes, purpose.then, purpose.otherwise, purpose.session))

    patch.setattr(CallMemoryMachine, "_send", silent)


def forgets_while_deleting(patch: pytest.MonkeyPatch) -> None:
    tick = CallMemoryMachine._tick

    def hasty(self: CallMemoryMachine, event: Tick) -> None:
        counts = {session.name: session.stores for session in self._sessions.values()}
        for session in self._sessions.values():
            if not session.open and not session.is_saving:
                session.stores = 0
        tick(self, event)
        for session in self._sessions.values():
            session.stores = max(session.stores, counts.get(session.name, 0))

    patch.setattr(CallMemoryMachine, "_tick", hasty)


def takes_what_was_not_stored_for_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CallMemoryMachine, "_not_stored", CallMemoryMachine._stored)


def keeps_no_bound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CallMemoryMachine, "_bound", lambda _self, _session, _caller: None)


def _at_a_bound() -> None:
    transcripts.test_at_a_bound_a_new_call_is_refused_and_the_bound_is_named("calls_max", 2)


def mixes_up_contents(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fingerprint, "matches", lambda _self, _other: True)


def _another_content() -> None:
    transcripts.test_an_id_with_another_content_is_refused_in_every_state(transcripts.PAY)


SAFEGUARDS: Final = (
    Safeguard("that a call begins is stored before it is executed", executes_before_the_start_is_stored),
    Safeguard(
        "an outcome is stored before it is answered",
        answers_before_the_outcome_is_stored,
        transcripts.test_an_outcome_that_was_answered_is_never_unknown_after_a_restart,
    ),
    Safeguard("what was begun before a restart is not executed", executes_again_what_was_begun_before_a_restart),
    Safeguard("a duplicate waits for the call in progress", executes_what_is_in_progress),
    Safeguard(
        "what is acknowledged is refused",
        executes_what_is_acknowledged,
        transcripts.test_what_is_acknowledged_is_refused_however_late_it_comes,
    ),
    Safeguard(
        "an acknowledgement is stored before it deletes",
        deletes_before_the_acknowledgement_is_stored,
        transcripts.test_an_acknowledgement_is_stored_before_what_it_deletes,
    ),
    Safeguard(
        "unknown sessions are refused by their age",
        believes_sessions_of_any_age,
        transcripts.test_an_unknown_session_is_judged_by_its_age,
    ),
    Safeguard(
        "a session is closed in the store before it is forgotten",
        forgets_without_a_guard,
        transcripts.test_a_session_half_forgotten_at_a_crash_is_refused,
    ),
    Safeguard(
        "a session's calls are deleted before the session",
        forgets_with_all_at_once,
        transcripts.test_a_session_half_forgotten_at_a_crash_is_refused,
    ),
    Safeguard(
        "the horizon is stored",
        keeps_the_horizon_for_itself,
        transcripts.test_a_forgotten_session_is_refused_though_the_clock_goes_back,
    ),
    Safeguard(
        "a session is not forgotten while its calls are deleted",
        forgets_while_deleting,
        transcripts.test_a_session_is_not_forgotten_while_its_calls_are_being_deleted,
    ),
    Safeguard(
        "what failed to be stored does not count as stored",
        takes_what_was_not_stored_for_stored,
        transcripts.test_a_start_that_was_not_stored_is_not_executed_and_may_be_asked_again,
    ),
    Safeguard("bounds refuse", keeps_no_bound, _at_a_bound),
    Safeguard("an id belongs to one content", mixes_up_contents, _another_content),
)


def histories_until_noticed(safeguard: Safeguard) -> int | None:
    """The number of histories without the safeguard until one breaks; None if `HISTORIES_MAX` do not."""
    return histories_until_broken(CallHistory, safeguard.leave_out, HISTORIES_MAX, STEPS_MAX, (AssertionError,))


if __name__ == "__main__":
    print_safeguards(SAFEGUARDS, histories_until_noticed)
