"""Entries of the call memory: calls, sessions, and each caller's share of them.

Knows no rules: the machine decides on entries, and counts each change here.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from hutong.rpc.delivery.ids import session_ms
from hutong.rpc.delivery.messages import NO_FINGERPRINT, CallRefusal, Fingerprint


class CallState(Enum):
    STARTING = "starting"  # its CallRecord is being stored
    RUNNING = "running"
    FINISHING = "finishing"  # its outcome is being stored
    DONE = "done"


OPEN: Final = (CallState.STARTING, CallState.RUNNING, CallState.FINISHING)
NO_WAITERS: Final[list[int]] = []
"""Shared and never appended to: most calls that are kept are DONE, and have no list of their own."""


@dataclass(slots=True)
class KeptCall:
    state: CallState
    at_ms: int
    outcome: bytes | CallRefusal = b""  # the answer to requests from DONE on; its bytes are in the store
    fingerprint: Fingerprint = NO_FINGERPRINT
    waiters: list[int] = field(default_factory=lambda: NO_WAITERS)  # tickets; the first one's request is executed

    @property
    def kept_bytes(self) -> int:
        return len(self.outcome) if isinstance(self.outcome, bytes) else 0


@dataclass(slots=True)
class CallerShare:
    """The entries of one caller: of the sessions that it was the first to use in this process."""

    caller: str
    sessions: int = 0
    calls: int = 0
    in_progress: int = 0
    kept_bytes: int = 0


@dataclass(slots=True)
class KeptSession:
    name: str
    began_ms: int
    heard_ms: int
    share: CallerShare
    acked_below: int = 0  # >= stored_below: what is refused
    stored_below: int = 0  # what the store refuses after a restart; calls below it may be deleted
    has_record: bool = False  # a SessionRecord may be in the store
    is_saving: bool = False
    stores: int = 0  # under way, or to be tried again
    calls: dict[int, KeptCall] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)  # the sequence numbers of calls that are not DONE

    @property
    def kept_bytes(self) -> int:
        return sum(call.kept_bytes for call in self.calls.values())


class Holdings:
    """All sessions of one service, with the totals of their calls and each caller's share of the totals."""

    def __init__(self) -> None:
        self.sessions: OrderedDict[str, KeptSession] = OrderedDict()  # least recently heard first
        self.own_share = CallerShare("")  # of this process, and of sessions that an earlier one left
        self.shares: dict[str, CallerShare] = {}  # of callers from outside; those that hold a session
        self.calls = 0
        self.in_progress = 0
        self.kept_bytes = 0

    def session(self, name: str, heard_ms: int, caller: str = "") -> KeptSession:
        """Return the session, made if it is unknown. `caller` is the first one to use it."""
        session = self.sessions.get(name)
        if session is None:
            # Calls of this process are trusted and bounded by the totals alone.
            share = self.shares.setdefault(caller, CallerShare(caller)) if caller else self.own_share
            share.sessions += 1
            session = self.sessions[name] = KeptSession(name, session_ms(name), heard_ms, share)
        session.heard_ms = max(session.heard_ms, heard_ms)
        return session

    def drop_session(self, session: KeptSession) -> None:
        del self.sessions[session.name]
        session.share.sessions -= 1
        # Callers come and go without end: a share that holds nothing would stay for ever.
        if not session.share.sessions:
            self.shares.pop(session.share.caller, None)

    def count(self, session: KeptSession, *, calls: int = 0, in_progress: int = 0, kept_bytes: int = 0) -> None:
        """Add a change of the session's calls to the totals and to its caller's share."""
        self.calls += calls
        self.in_progress += in_progress
        self.kept_bytes += kept_bytes
        share = session.share
        share.calls += calls
        share.in_progress += in_progress
        share.kept_bytes += kept_bytes

    def check_invariants(self) -> None:
        calls = [call for session in self.sessions.values() for call in session.calls.values()]
        assert len(calls) == self.calls
        assert sum(call.state in OPEN for call in calls) == self.in_progress
        assert sum(call.kept_bytes for call in calls) == self.kept_bytes
        assert not NO_WAITERS
        assert all(bool(call.waiters) == (call.state in OPEN) for call in calls)
        for share in (self.own_share, *self.shares.values()):
            held = [session for session in self.sessions.values() if session.share is share]
            calls = [call for session in held for call in session.calls.values()]
            # Shares of callers exist only while they hold a session; the process's own share may be empty.
            assert share.sessions == len(held) > (-1 if share is self.own_share else 0)
            assert (share.calls, share.kept_bytes) == (len(calls), sum(call.kept_bytes for call in calls))
            assert share.in_progress == sum(call.state in OPEN for call in calls)
        for session in self.sessions.values():
            assert session.open == {number for number, call in session.calls.items() if call.state in OPEN}
