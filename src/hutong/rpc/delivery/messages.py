"""Events, instructions and records of the call memory.

Knows no store and no service: an outcome is bytes here.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from hutong.foundation.machine import Answer, Tick
from hutong.rpc.delivery.ids import CallId

CLOSED: Final = 2**63 - 1
"""As `acked_below`: the session takes no call any more."""


class Known(Enum):
    """States of a call in its record."""

    STARTED = "started"  # it was about to be executed; without a later record its outcome is unknown
    FINISHED = "finished"
    NOT_KEPT = "not kept"  # finished, and its result was too large to be kept


class Fingerprint(NamedTuple):
    """The content of a call: its action, and a digest of its arguments."""

    action: str
    digest: bytes

    def matches(self, other: "Fingerprint") -> bool:
        """Return True if both may belong to one call.

        A record of an older release has no fingerprint and matches every call.
        """
        return self == other or not (self.digest and other.digest)


NO_FINGERPRINT: Final = Fingerprint("", b"")


@dataclass(frozen=True, slots=True)
class CallRecord:
    """Key: the call."""

    known: Known
    at_ms: int
    outcome: bytes = b""
    fingerprint: Fingerprint = NO_FINGERPRINT


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """Key: the session. Calls below `acked_below` are never executed again."""

    acked_below: int
    heard_ms: int


@dataclass(frozen=True, slots=True)
class HorizonRecord:
    """Key: HORIZON. Unknown sessions that started before it are never executed."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class _HorizonKey:
    """The key of the one horizon."""


HORIZON: Final = _HorizonKey()
Key = CallId | str | _HorizonKey
"""A call, a session, or HORIZON."""
Record = CallRecord | SessionRecord | HorizonRecord
Change = tuple[Key, Record | None]
"""None: the key's record is deleted."""


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """Bounds. Above each, a new call is refused and not executed.

    `keep_for_ms`: how long an unacknowledged outcome is kept. `clock_skew_ms`: the tolerated error of callers' clocks.
    `tidy_after`: acknowledged calls after which a session's are deleted together. `caller_shares`: one caller from
    outside holds at most this fraction, 1/n, of sessions, calls, calls in progress and bytes.
    """

    keep_for_ms: int = 3_600_000
    clock_skew_ms: int = 300_000
    sessions_max: int = 100_000
    calls_max: int = 200_000
    session_calls_max: int = 10_000
    in_progress_max: int = 10_000
    kept_bytes_max: int = 64 << 20
    outcome_bytes_max: int = 512 << 10
    tidy_after: int = 64
    caller_shares: int = 4
    forgotten_per_tick_max: int = 1_000


class Reason(Enum):
    """The reason why a call has no outcome here. All but the last two: this request does not execute it."""

    FULL = "full"  # a bound; it may be asked again
    NOT_STORED = "not stored"  # that it begins could not be stored; it may be asked again
    EXPIRED = "expired"  # acknowledged, or too old: the memory no longer knows its outcome
    FROM_THE_FUTURE = "from the future"  # the caller's clock is ahead by more than is allowed
    REUSED = "reused"  # its id is that of a call with another action or other arguments
    NOT_KEPT = "not kept"  # it happened once, and its result was too large to be kept
    UNKNOWN = "unknown"  # started by a process that ended: executed wholly or in part, at most once


@dataclass(frozen=True, slots=True)
class CallRefusal:
    """`limit` and `maximum` name the bound that is FULL; `action` is that of the call which had a REUSED id first."""

    reason: Reason
    limit: str = ""
    maximum: int = 0
    action: str = ""


# Events


@dataclass(frozen=True, slots=True)
class Replayed:
    """A record of an earlier process, in the order of the log; all of them come before Loaded."""

    key: Key
    record: Record | None


@dataclass(frozen=True, slots=True)
class Loaded:
    now_ms: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a call: `ticket` is answered once. `acked_below` is 0 without a header.

    `caller` is the user or the address that the call came from; empty for this process, which has no share of its own.
    """

    ticket: int
    call: CallId
    acked_below: int
    now_ms: int
    fingerprint: Fingerprint = NO_FINGERPRINT
    caller: str = ""


@dataclass(frozen=True, slots=True)
class ChangesStored:
    """All changes of a Store are durable."""

    number: int


@dataclass(frozen=True, slots=True)
class ChangesNotStored:
    """Any of the changes of a Store may be durable, or none."""

    number: int


@dataclass(frozen=True, slots=True)
class Executed:
    """`outcome` answers those who wait now; `kept` is the form of it for the store, None if it has none."""

    call: CallId
    outcome: object
    kept: bytes | None
    now_ms: int


# Instructions


@dataclass(frozen=True, slots=True)
class Store:
    """Make the changes durable, in any order; then ChangesStored or ChangesNotStored."""

    number: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Execute:
    """Execute the call, as the caller with this ticket asked. Issued once in a call's life; Executed follows."""

    ticket: int
    call: CallId


Event = Replayed | Loaded | Asked | ChangesStored | ChangesNotStored | Executed | Tick
Instruction = Store | Execute | Answer[object]
"""A reply is the outcome of an Executed, the kept bytes of an earlier one, or a CallRefusal."""
