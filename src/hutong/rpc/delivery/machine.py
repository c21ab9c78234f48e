"""The call memory: each call is executed at most once, despite repeats, delays, losses and restarts of any process.

Strategy: the start of a call is stored before the call is executed, and its outcome before it is answered. So after a
crash the store shows for each call: not started, started, or finished with an outcome. A call that a crashed process
had started is never executed again; its outcome is unknown.

A call's record is deleted only when another stored value refuses the call. That value is the session's `acked_below`,
stored before the calls below it are deleted, or the horizon, stored before a session is deleted. The horizon refuses
every unknown session that started before it. So deletion is safe at every step, in any order in which the changes of
one Store become durable.

A session is deleted after `keep_for_ms` without a call; an unknown session's age is part of its name. At-most-once
execution depends on no clock: the horizon is a session's own time. A wrong clock can only refuse a call too early.

Knows nothing of stores, services, loops or clocks: time (wall time, since it outlives processes) arrives with events,
and the driver executes the instructions. For each Store it must bring one ChangesStored or ChangesNotStored, and for
each Execute one Executed.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from hutong.foundation.machine import Answer, Tick
from hutong.rpc.delivery.bounds import EXPIRED, age_refusal, share_refusal, total_refusal
from hutong.rpc.delivery.holdings import NO_WAITERS, CallState, Holdings, KeptCall, KeptSession
from hutong.rpc.delivery.ids import CallId, session_ms
from hutong.rpc.delivery.messages import (
    CLOSED,
    HORIZON,
    Asked,
    CallRecord,
    CallRefusal,
    Change,
    ChangesNotStored,
    ChangesStored,
    Event,
    Execute,
    Executed,
    HorizonRecord,
    Instruction,
    Known,
    Loaded,
    MemorySettings,
    Reason,
    Record,
    Replayed,
    SessionRecord,
    Store,
)

TICK_MS: Final = 1_000
AGING_SLACK: Final = 1_024


@dataclass(frozen=True, slots=True)
class _Purpose:
    """The purpose of a Store. `then` follows once it is durable; with `otherwise` None a failed Store is repeated."""

    changes: tuple[Change, ...]
    then: Callable[[], None]
    otherwise: Callable[[], None] | None
    session: KeptSession | None


class CallMemoryMachine:
    """All sessions of one service."""

    def __init__(self, settings: MemorySettings | None = None) -> None:
        self.settings = settings or MemorySettings()
        self.holdings = Holdings()
        self.waited_total = 0  # requests for a call in progress
        self._sessions = self.holdings.sessions
        self._horizon_ms = -1
        self._aging: deque[tuple[int, CallId]] = deque()  # DONE calls by the time they ended
        self._purposes: dict[int, _Purpose] = {}
        self._again: list[_Purpose] = []
        self._stores = 0
        self._tick_ms = 0
        self._out: list[Instruction] = []
        self._handlers: dict[type, Callable[[Any], None]] = {
            Replayed: self._replay,
            Loaded: self._loaded,
            Asked: self._asked,
            ChangesStored: self._stored,
            ChangesNotStored: self._not_stored,
            Executed: self._executed,
            Tick: self._tick,
        }

    def handle(self, event: Event) -> list[Instruction]:
        self._handlers[type(event)](event)
        out, self._out = self._out, []
        return out

    def next_tick_ms(self) -> int | None:
        """Return the time of the next scan for expired entries and failed stores; None while there is nothing."""
        return self._tick_ms if self._sessions or self._again else None

    def is_in_progress(self, call: CallId) -> bool:
        session = self._sessions.get(call.session)
        return session is not None and call.sequence in session.open

    def check_invariants(self) -> None:
        self.holdings.check_invariants()
        for session in self._sessions.values():
            assert session.stored_below <= session.acked_below
            # Below `stored_below` only open calls remain: they are deleted when they finish.
            assert all(number >= session.stored_below for number in session.calls.keys() - session.open)
            assert not session.is_saving or session.stores > 0

    # What an earlier process left

    def _replay(self, event: Replayed) -> None:
        key, record = event.key, event.record
        if isinstance(key, CallId):
            self._replay_call(key, record)
        elif isinstance(key, str):
            if isinstance(record, SessionRecord):
                session = self.holdings.session(key, record.heard_ms)
                session.has_record = True
                session.acked_below = session.stored_below = max(session.acked_below, record.acked_below)
            # A tombstone of the session: calls that were read before it may remain, so the entry stays until `_loaded`.
            elif key in self._sessions:
                self._sessions[key].has_record = False
                self._sessions[key].acked_below = self._sessions[key].stored_below = 0
        elif isinstance(record, HorizonRecord):
            # A replaced writer may have written late; the horizon never moves back.
            self._horizon_ms = max(self._horizon_ms, record.at_ms)

    def _replay_call(self, key: CallId, record: Record | None) -> None:
        # A tombstone: the call was acknowledged and deleted.
        if not isinstance(record, CallRecord):
            if key.session in self._sessions:
                self._sessions[key.session].calls.pop(key.sequence, None)
            return
        session = self.holdings.session(key.session, record.at_ms)
        known = session.calls.get(key.sequence)
        is_late = record.known is Known.STARTED and known is not None and known.outcome != _UNKNOWN
        if not is_late:  # else a writer that was replaced wrote it too late: what is finished stays so
            # STARTED without a later record means a crash in between: at most once forbids another execution.
            outcome = {Known.STARTED: _UNKNOWN, Known.NOT_KEPT: _NOT_KEPT}.get(record.known, record.outcome)
            session.calls[key.sequence] = KeptCall(CallState.DONE, record.at_ms, outcome, record.fingerprint)

    def _loaded(self, event: Loaded) -> None:
        # Records arrive in the order of the table; `_forget_idle` needs the order of last use.
        by_time = sorted(self._sessions.values(), key=lambda session: session.heard_ms)
        for session in by_time:
            self._sessions.move_to_end(session.name)
            # Only tombstones were left of it.
            if not session.calls and not session.has_record:
                self.holdings.drop_session(session)
                continue
            self.holdings.count(session, calls=len(session.calls), kept_bytes=session.kept_bytes)
            # The process ended between storing `acked_below` and the deletions that it allows.
            self._delete(session, [number for number in session.calls if number < session.stored_below])
            self._aging.extend((call.at_ms, CallId(session.name, n)) for n, call in session.calls.items())
        self._aging = deque(sorted(self._aging))
        self._tick(Tick(event.now_ms))

    # A call

    def _asked(self, event: Asked) -> None:
        call_id = event.call
        session = self._sessions.get(call_id.session)
        if session is None:
            refusal = self._stranger(call_id.session, event)
        else:
            self._hear(session, event)
            # The caller acknowledged this sequence: its record may be deleted already, so executing it could be a
            # second time.
            refusal = None if call_id.sequence >= session.acked_below else EXPIRED
        call = session.calls.get(call_id.sequence) if session and not refusal else None
        if call is None:
            # A known call is answered even at a bound: refusing a repeat would hide an outcome that exists.
            refusal = refusal or self._bound(session, event.caller)
        if refusal:
            self._out.append(Answer(event.ticket, refusal))
        elif call is None:
            self._start(event)
        # Same id, other method or arguments: the stored outcome would be the answer to another call.
        elif not call.fingerprint.matches(event.fingerprint):
            self._out.append(Answer(event.ticket, CallRefusal(Reason.REUSED, action=call.fingerprint.action)))
        elif call.state is CallState.DONE:
            self._out.append(Answer(event.ticket, call.outcome))
        else:
            # In progress, by an earlier attempt: both attempts get the one outcome.
            call.waiters.append(event.ticket)
            self.waited_total += 1

    def _stranger(self, name: str, event: Asked) -> CallRefusal | None:
        """Return the reason to refuse an unknown session, or None."""
        settings, share = self.settings, self.holdings.shares.get(event.caller)
        return (
            age_refusal(settings, session_ms(name), self._horizon_ms, event.now_ms)
            or total_refusal(settings, ("sessions_max", len(self._sessions)))
            or (share_refusal(settings, ("sessions_max", share.sessions)) if share is not None else None)
        )

    def _bound(self, session: KeptSession | None, caller: str) -> CallRefusal | None:
        refusal = total_refusal(
            self.settings,
            ("calls_max", self.holdings.calls),
            ("in_progress_max", self.holdings.in_progress),
            ("kept_bytes_max", self.holdings.kept_bytes),
            ("session_calls_max", len(session.calls) if session else 0),
        )
        share = self.holdings.shares.get(caller) if session is None else session.share
        # The caller holds nothing yet, or is this process.
        if refusal or share is None or share is self.holdings.own_share:
            return refusal
        return share_refusal(
            self.settings,
            ("calls_max", share.calls),
            ("in_progress_max", share.in_progress),
            ("kept_bytes_max", share.kept_bytes),
        )

    def _hear(self, session: KeptSession, event: Asked) -> None:
        session.heard_ms = max(session.heard_ms, event.now_ms)
        self._sessions.move_to_end(session.name)
        # Attempts may arrive out of order; an older one must not take an acknowledgement back.
        if event.acked_below > session.acked_below:
            session.acked_below = event.acked_below
            self._save_if_due(session)

    def _start(self, event: Asked) -> None:
        name, sequence = event.call
        session = self.holdings.session(name, event.now_ms, event.caller)
        session.acked_below = max(session.acked_below, event.acked_below)
        if sequence < session.acked_below:  # it acknowledges itself
            self._out.append(Answer(event.ticket, EXPIRED))
            return
        # A wall clock that was set back while the memory was empty must not put off the scan by as much.
        self._tick_ms = min(self._tick_ms, event.now_ms + TICK_MS)
        # Waiters can join before the start is durable, hence STARTING. Execution waits for the store.
        session.calls[sequence] = KeptCall(
            CallState.STARTING, event.now_ms, fingerprint=event.fingerprint, waiters=[event.ticket]
        )
        session.open.add(sequence)
        self.holdings.count(session, calls=1, in_progress=1)
        record = CallRecord(Known.STARTED, event.now_ms, fingerprint=event.fingerprint)
        self._store(
            ((event.call, record),),
            lambda: self._execute(session, sequence),
            lambda: self._give_up_start(session, sequence),
            session,
        )

    def _execute(self, session: KeptSession, sequence: int) -> None:
        call = session.calls[sequence]
        call.state = CallState.RUNNING
        self._out.append(Execute(call.waiters[0], CallId(session.name, sequence)))

    def _give_up_start(self, session: KeptSession, sequence: int) -> None:
        """It was not executed, so it may be asked again, as if for the first time."""
        call = session.calls.pop(sequence)
        session.open.discard(sequence)
        self.holdings.count(session, calls=-1, in_progress=-1)
        self._answer_waiters(call, _NOT_STORED)

    def _answer_waiters(self, call: KeptCall, reply: object) -> None:
        self._out += [Answer(ticket, reply) for ticket in call.waiters]
        call.waiters = NO_WAITERS

    def _executed(self, event: Executed) -> None:
        name, sequence = event.call
        session = self._sessions[name]
        call = session.calls[sequence]
        call.state, call.at_ms = CallState.FINISHING, event.now_ms
        kept, settings = event.kept, self.settings
        # A large outcome is answered once and then forgotten: a repeat learns that the call happened, not its result.
        if (
            kept is not None
            and len(kept) <= settings.outcome_bytes_max
            and self.holdings.kept_bytes + len(kept) <= settings.kept_bytes_max
        ):
            call.outcome = kept
            self.holdings.count(session, kept_bytes=len(kept))
            record = CallRecord(Known.FINISHED, event.now_ms, kept, call.fingerprint)
        else:
            call.outcome = _NOT_KEPT
            record = CallRecord(Known.NOT_KEPT, event.now_ms, fingerprint=call.fingerprint)
        self._store(
            ((event.call, record),), lambda: self._finish(session, sequence, call, event.outcome), None, session
        )

    def _finish(self, session: KeptSession, sequence: int, call: KeptCall, outcome: object) -> None:
        call.state = CallState.DONE
        session.open.discard(sequence)
        self.holdings.count(session, in_progress=-1)
        self._answer_waiters(call, outcome)
        # It was acknowledged while in progress; its deletion waited for this moment.
        if sequence < session.stored_below:
            self._delete(session, [sequence])
        else:
            self._age(call.at_ms, CallId(session.name, sequence))

    def _age(self, at_ms: int, call_id: CallId) -> None:
        self._aging.append((at_ms, call_id))
        # Most calls are acknowledged and deleted long before they age: without this, their entries would pile up.
        if len(self._aging) > 2 * self.holdings.calls + AGING_SLACK:
            sessions = self._sessions
            self._aging = deque(
                entry
                for entry in self._aging
                if (session := sessions.get(entry[1].session)) and entry[1].sequence in session.calls
            )

    # Storing

    def _store(
        self,
        changes: tuple[Change, ...],
        then: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
        session: KeptSession | None = None,
    ) -> None:
        """With `otherwise` None it is tried again at the next Tick, as often as it takes."""
        if session is not None:
            session.stores += 1
        self._send(_Purpose(changes, then, otherwise, session))

    def _send(self, purpose: _Purpose) -> None:
        self._stores += 1
        self._purposes[self._stores] = purpose
        self._out.append(Store(self._stores, purpose.changes))

    def _stored(self, event: ChangesStored) -> None:
        purpose = self._purposes.pop(event.number)
        if purpose.session is not None:
            purpose.session.stores -= 1
        purpose.then()

    def _not_stored(self, event: ChangesNotStored) -> None:
        purpose = self._purposes.pop(event.number)
        # Still counted in the session's `stores`, so that the session outlives what is tried again.
        if purpose.otherwise is None:
            self._again.append(purpose)
            return
        if purpose.session is not None:
            purpose.session.stores -= 1
        purpose.otherwise()

    # Acknowledged calls

    def _save_if_due(self, session: KeptSession) -> None:
        if not session.is_saving and session.acked_below - session.stored_below >= self.settings.tidy_after:
            self._save(session)

    def _save(self, session: KeptSession) -> None:
        session.is_saving = session.has_record = True
        below = session.acked_below
        record = SessionRecord(below, session.heard_ms)
        self._store(((session.name, record),), lambda: self._saved(session, below), None, session)

    def _saved(self, session: KeptSession, below: int) -> None:
        session.is_saving = False
        # Deletion only after `acked_below` is durable: after a crash a repeat must meet one or the other.
        before, session.stored_below = session.stored_below, below
        # A caller chooses its sequence numbers, so the range may be huge: walk the shorter of both.
        near = range(before, below) if below - before <= len(session.calls) else list(session.calls)
        self._delete(session, [n for n in near if n < below and n in session.calls and n not in session.open])
        self._save_if_due(session)

    def _delete(self, session: KeptSession, sequences: Iterable[int]) -> None:
        """Calls that the stored `acked_below` refuses."""
        changes: list[Change] = []
        for sequence in sequences:
            self.holdings.count(session, calls=-1, kept_bytes=-session.calls.pop(sequence).kept_bytes)
            changes.append((CallId(session.name, sequence), None))
        if changes:
            self._store(tuple(changes), _nothing, None, session)

    # Time

    def _tick(self, event: Tick) -> None:
        # An early tick works, too: with a wall clock that was set back the next one could be hours away.
        self._tick_ms = event.now_ms + TICK_MS
        again, self._again = self._again, []
        for purpose in again:
            self._send(purpose)
        before_ms = event.now_ms - self.settings.keep_for_ms
        self._expire_calls(before_ms)
        self._forget_idle(before_ms)

    def _expire_calls(self, before_ms: int) -> None:
        """Acknowledge old calls without an acknowledgement, unless an earlier call of the session is in progress."""
        for _ in range(min(len(self._aging), self.settings.forgotten_per_tick_max)):
            at_ms, call_id = self._aging[0]
            if at_ms > before_ms:
                return
            self._aging.popleft()
            session = self._sessions.get(call_id.session)
            if session is None or call_id.sequence not in session.calls:
                continue
            if session.open and min(session.open) < call_id.sequence:
                # Acknowledging this call would acknowledge the open one before it.
                self._age(before_ms + self.settings.keep_for_ms, call_id)  # examined again
            # Else `_forget_idle` deletes the whole session.
            elif session.heard_ms > before_ms:  # else it is forgotten as a whole
                session.acked_below = max(session.acked_below, call_id.sequence + 1)
                if not session.is_saving and session.acked_below > session.stored_below:
                    self._save(session)

    def _forget_idle(self, before_ms: int) -> None:
        forgotten: list[KeptSession] = []
        # A copy: `move_to_end` changes the dictionary.
        for session in list(islice(self._sessions.values(), self.settings.forgotten_per_tick_max)):
            # Sessions are ordered by last use, so the rest is younger.
            if session.heard_ms > before_ms and session.acked_below != CLOSED:
                break
            if session.open or session.stores:
                self._sessions.move_to_end(session.name)  # it is not idle; examined again after all others
                continue
            forgotten.append(session)
        if forgotten:
            self._forget(forgotten)

    def _forget(self, sessions: list[KeptSession]) -> None:
        """Delete sessions in three steps, each after the one before is durable: guards, calls, session records.

        The guards refuse the sessions' calls meanwhile: the horizon, and a closed record for each session that has
        more than one record to delete.
        """
        guards: list[Change] = []
        calls: list[Change] = []
        names: list[Change] = []
        for session in sessions:
            # A single record is deleted atomically and needs no guard. With several, a crash between their deletions
            # would leave a session that looks alive without its acknowledged calls.
            if session.calls and (session.has_record or len(session.calls) > 1):
                guards.append((session.name, SessionRecord(CLOSED, session.heard_ms)))
                session.has_record = True
            calls += [(CallId(session.name, sequence), None) for sequence in session.calls]
            if session.has_record:
                names.append((session.name, None))
            self._horizon_ms = max(self._horizon_ms, session.began_ms)
            self.holdings.count(session, calls=-len(session.calls), kept_bytes=-session.kept_bytes)
            self.holdings.drop_session(session)
        steps = [((HORIZON, HorizonRecord(self._horizon_ms)), *guards), tuple(calls), tuple(names)]
        # Each step starts after the one before is durable; within a step the order does not matter.
        self._store_in_turn([step for step in steps if step])

    def _store_in_turn(self, steps: list[tuple[Change, ...]]) -> None:
        first, *others = steps
        self._store(first, (lambda: self._store_in_turn(others)) if others else _nothing)


def _nothing() -> None:
    pass


_NOT_STORED: Final = CallRefusal(Reason.NOT_STORED)
_NOT_KEPT: Final = CallRefusal(Reason.NOT_KEPT)
_UNKNOWN: Final = CallRefusal(Reason.UNKNOWN)
