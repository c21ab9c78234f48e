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
and the driver executes the instructions. For each Store it must bring one Stored or NotStored, for each Execute one
Executed, and a Tick now and then.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from hutong.rpc.delivery.bounds import EXPIRED, age_refusal, share_refusal, total_refusal
from hutong.rpc.delivery.holdings import CallerShare, CallState, KeptCall, KeptSession
from hutong.rpc.delivery.ids import CallId, session_ms
from hutong.rpc.delivery.messages import (
    CLOSED,
    HORIZON,
    Answer,
    Asked,
    CallRecord,
    Change,
    Event,
    Execute,
    Executed,
    HorizonRecord,
    Instruction,
    Known,
    Loaded,
    MemorySettings,
    NotStored,
    Reason,
    Record,
    Refusal,
    Replayed,
    SessionRecord,
    Settle,
    Store,
    Stored,
    Tick,
    Wait,
)

AGING_SLACK: Final = 1_024
_OPEN: Final = (CallState.STARTING, CallState.RUNNING, CallState.FINISHING)


@dataclass(frozen=True, slots=True)
class _Purpose:
    """The purpose of a Store. `then` follows once it is durable; with `otherwise` None a failed Store is repeated."""

    changes: tuple[Change, ...]
    then: Callable[[], None]
    otherwise: Callable[[], None] | None = None


class Memory:
    """All sessions of one service."""

    def __init__(self, settings: MemorySettings | None = None) -> None:
        self.settings = settings or MemorySettings()
        self.kept_bytes = 0
        self._sessions: OrderedDict[str, KeptSession] = OrderedDict()  # least recently heard first
        self._own_share = CallerShare("")  # of this process, and of sessions that an earlier one left
        self._shares: dict[str, CallerShare] = {}  # of callers from outside; those that hold a session
        self._calls = 0  # of all sessions
        self._in_progress = 0
        self._horizon_ms = -1
        self._aging: deque[tuple[int, CallId]] = deque()  # DONE calls by the time they ended
        self._purposes: dict[int, _Purpose] = {}
        self._again: list[_Purpose] = []
        self._stores = 0
        self._out: list[Instruction] = []
        self._handlers: dict[type, Callable[[Any], None]] = {
            Replayed: self._replay,
            Loaded: self._loaded,
            Asked: self._asked,
            Stored: self._stored,
            NotStored: self._not_stored,
            Executed: self._executed,
            Tick: self._tick,
        }

    def handle(self, event: Event) -> list[Instruction]:
        self._handlers[type(event)](event)
        out, self._out = self._out, []
        return out

    @property
    def sessions(self) -> int:
        return len(self._sessions)

    @property
    def calls(self) -> int:
        return self._calls

    @property
    def in_progress(self) -> int:
        return self._in_progress

    @property
    def is_empty(self) -> bool:
        """True if a Tick has nothing to do."""
        return not self._sessions and not self._again

    def check_invariants(self) -> None:
        calls = [call for session in self._sessions.values() for call in session.calls.values()]
        assert len(calls) == self._calls
        assert sum(call.state in _OPEN for call in calls) == self._in_progress
        assert sum(len(call.kept) for call in calls) == self.kept_bytes
        for share in (self._own_share, *self._shares.values()):
            held = [session for session in self._sessions.values() if session.share is share]
            calls = [call for session in held for call in session.calls.values()]
            # Shares of callers exist only while they hold a session; the process's own share may be empty.
            assert share.sessions == len(held) > (-1 if share is self._own_share else 0)
            assert (share.calls, share.kept_bytes) == (len(calls), sum(len(call.kept) for call in calls))
            assert share.in_progress == sum(call.state in _OPEN for call in calls)
        for session in self._sessions.values():
            assert session.stored_below <= session.acked_below
            assert session.open == {number for number, call in session.calls.items() if call.state in _OPEN}
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
                session = self._session(key, record.heard_ms)
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
        session = self._session(key.session, record.at_ms)
        known = session.calls.get(key.sequence)
        is_late = record.known is Known.STARTED and known is not None and known.outcome != _UNKNOWN
        if not is_late:  # else a writer that was replaced wrote it too late: what is finished stays so
            # STARTED without a later record means a crash in between: at most once forbids another execution.
            outcome = {Known.STARTED: _UNKNOWN, Known.NOT_KEPT: _NOT_KEPT}.get(record.known, record.outcome)
            kept = record.outcome if record.known is Known.FINISHED else b""
            session.calls[key.sequence] = KeptCall(CallState.DONE, record.at_ms, outcome, kept, record.fingerprint)

    def _loaded(self, event: Loaded) -> None:
        # Records arrive in the order of the table; `_forget_idle` needs the order of last use.
        by_time = sorted(self._sessions.values(), key=lambda session: session.heard_ms)
        self._sessions = OrderedDict((session.name, session) for session in by_time)
        for session in by_time:
            # Only tombstones were left of it.
            if not session.calls and not session.has_record:
                self._drop(session)
                continue
            self._count(session, calls=len(session.calls), kept_bytes=session.kept_bytes)
            # The process ended between storing `acked_below` and the deletions that it allows.
            self._delete(session, [number for number in session.calls if number < session.stored_below])
            self._aging.extend((call.at_ms, CallId(session.name, n)) for n, call in session.calls.items())
        self._aging = deque(sorted(self._aging))
        self._tick(Tick(event.now_ms))

    def _session(self, name: str, heard_ms: int, caller: str = "") -> KeptSession:
        session = self._sessions.get(name)
        if session is None:
            # Calls of this process are trusted and bounded by the totals alone.
            share = self._shares.setdefault(caller, CallerShare(caller)) if caller else self._own_share
            share.sessions += 1
            session = self._sessions[name] = KeptSession(name, session_ms(name), heard_ms, share)
        session.heard_ms = max(session.heard_ms, heard_ms)
        return session

    def _drop(self, session: KeptSession) -> None:
        del self._sessions[session.name]
        session.share.sessions -= 1
        if not session.share.sessions:
            self._shares.pop(session.share.caller, None)

    def _count(self, session: KeptSession, *, calls: int = 0, in_progress: int = 0, kept_bytes: int = 0) -> None:
        self._calls += calls
        self._in_progress += in_progress
        self.kept_bytes += kept_bytes
        share = session.share
        share.calls += calls
        share.in_progress += in_progress
        share.kept_bytes += kept_bytes

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
            self._out.append(Answer(event.asker, refusal))
        elif call is None:
            self._start(event)
        # Same id, other method or arguments: the stored outcome would be the answer to another call.
        elif not call.fingerprint.matches(event.fingerprint):
            self._out.append(Answer(event.asker, Refusal(Reason.REUSED, action=call.fingerprint.action)))
        elif call.state is CallState.DONE:
            self._out.append(Answer(event.asker, call.outcome))
        else:
            # In progress, by an earlier attempt: both attempts get the one outcome.
            self._out.append(Wait(event.asker, call_id))

    def _stranger(self, name: str, event: Asked) -> Refusal | None:
        """Return the reason to refuse an unknown session, or None."""
        settings, share = self.settings, self._shares.get(event.caller)
        return (
            age_refusal(settings, session_ms(name), self._horizon_ms, event.now_ms)
            or total_refusal(settings, ("sessions_max", len(self._sessions)))
            or (share_refusal(settings, ("sessions_max", share.sessions)) if share is not None else None)
        )

    def _bound(self, session: KeptSession | None, caller: str) -> Refusal | None:
        refusal = total_refusal(
            self.settings,
            ("calls_max", self._calls),
            ("in_progress_max", self._in_progress),
            ("kept_bytes_max", self.kept_bytes),
            ("session_calls_max", len(session.calls) if session else 0),
        )
        share = self._shares.get(caller) if session is None else session.share
        # The caller holds nothing yet, or is this process.
        if refusal or share is None or share is self._own_share:
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
        session = self._session(name, event.now_ms, event.caller)
        session.acked_below = max(session.acked_below, event.acked_below)
        if sequence < session.acked_below:  # it acknowledges itself
            self._out.append(Answer(event.asker, EXPIRED))
            return
        # Waiters can join before the start is durable, hence STARTING. Execution waits for the store.
        session.calls[sequence] = KeptCall(CallState.STARTING, event.now_ms, fingerprint=event.fingerprint)
        session.open.add(sequence)
        self._count(session, calls=1, in_progress=1)
        self._out.append(Wait(event.asker, event.call))
        record = CallRecord(Known.STARTED, event.now_ms, fingerprint=event.fingerprint)
        self._store(
            ((event.call, record),),
            lambda: self._execute(session, sequence),
            lambda: self._give_up_start(session, sequence),
            session,
        )

    def _execute(self, session: KeptSession, sequence: int) -> None:
        session.calls[sequence].state = CallState.RUNNING
        self._out.append(Execute(CallId(session.name, sequence)))

    def _give_up_start(self, session: KeptSession, sequence: int) -> None:
        """It was not executed, so it may be asked again, as if for the first time."""
        del session.calls[sequence]
        session.open.discard(sequence)
        self._count(session, calls=-1, in_progress=-1)
        self._out.append(Settle(CallId(session.name, sequence), _NOT_STORED))

    def _executed(self, event: Executed) -> None:
        name, sequence = event.call
        session = self._sessions[name]
        call = session.calls[sequence]
        call.state, call.at_ms, call.outcome = CallState.FINISHING, event.now_ms, event.outcome
        size, settings = len(event.outcome), self.settings
        # A large outcome is answered once and then forgotten: a repeat learns that the call happened, not its result.
        if event.is_kept and size <= settings.outcome_bytes_max and self.kept_bytes + size <= settings.kept_bytes_max:
            call.kept = event.outcome
            self._count(session, kept_bytes=size)
            record = CallRecord(Known.FINISHED, event.now_ms, event.outcome, call.fingerprint)
        else:
            record = CallRecord(Known.NOT_KEPT, event.now_ms, fingerprint=call.fingerprint)
        self._store(
            ((event.call, record),),
            lambda: self._finish(session, sequence, call, is_kept=record.known is Known.FINISHED),
            None,
            session,
        )

    def _finish(self, session: KeptSession, sequence: int, call: KeptCall, *, is_kept: bool) -> None:
        call.state = CallState.DONE
        session.open.discard(sequence)
        self._count(session, in_progress=-1)
        self._out.append(Settle(CallId(session.name, sequence), call.outcome))
        if not is_kept:
            call.outcome = _NOT_KEPT
        # It was acknowledged while in progress; its deletion waited for this moment.
        if sequence < session.stored_below:
            self._delete(session, [sequence])
        else:
            self._age(call.at_ms, CallId(session.name, sequence))

    def _age(self, at_ms: int, call_id: CallId) -> None:
        self._aging.append((at_ms, call_id))
        if len(self._aging) > 2 * self._calls + AGING_SLACK:  # most are acknowledged and deleted long before they age
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
        if session is None:
            self._send(_Purpose(changes, then, otherwise))
            return
        session.stores += 1

        def counted(inner: Callable[[], None]) -> Callable[[], None]:
            def ended() -> None:
                session.stores -= 1
                inner()

            return ended

        self._send(_Purpose(changes, counted(then), counted(otherwise) if otherwise else None))

    def _send(self, purpose: _Purpose) -> None:
        self._stores += 1
        self._purposes[self._stores] = purpose
        self._out.append(Store(self._stores, purpose.changes))

    def _stored(self, event: Stored) -> None:
        self._purposes.pop(event.number).then()

    def _not_stored(self, event: NotStored) -> None:
        purpose = self._purposes.pop(event.number)
        if purpose.otherwise is None:
            self._again.append(purpose)
        else:
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
            self._count(session, calls=-1, kept_bytes=-len(session.calls.pop(sequence).kept))
            changes.append((CallId(session.name, sequence), None))
        if changes:
            self._store(tuple(changes), _nothing, None, session)

    # Time

    def _tick(self, event: Tick) -> None:
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
                self._age(before_ms + self.settings.keep_for_ms, call_id)  # looked at again
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
                self._sessions.move_to_end(session.name)  # it is not idle; looked at again after all others
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
            self._count(session, calls=-len(session.calls), kept_bytes=-session.kept_bytes)
            self._drop(session)
        steps = [((HORIZON, HorizonRecord(self._horizon_ms)), *guards), tuple(calls), tuple(names)]
        # Each step starts after the one before is durable; within a step the order does not matter.
        self._store_in_turn([step for step in steps if step])

    def _store_in_turn(self, steps: list[tuple[Change, ...]]) -> None:
        first, *others = steps
        self._store(first, (lambda: self._store_in_turn(others)) if others else _nothing)


def _nothing() -> None:
    pass


_NOT_STORED: Final = Refusal(Reason.NOT_STORED)
_NOT_KEPT: Final = Refusal(Reason.NOT_KEPT)
_UNKNOWN: Final = Refusal(Reason.UNKNOWN)
