"""Entries of the call memory: calls, sessions, and each caller's share of them.

Values only: the machine changes them.
"""

from dataclasses import dataclass, field
from enum import Enum

from hutong.rpc.delivery.messages import NO_FINGERPRINT, Fingerprint, Refusal


class CallState(Enum):
    STARTING = "starting"  # its CallRecord is being stored
    RUNNING = "running"
    FINISHING = "finishing"  # its outcome is being stored
    DONE = "done"


@dataclass(slots=True)
class KeptCall:
    state: CallState
    at_ms: int
    outcome: bytes | Refusal = b""  # when DONE; while FINISHING what will be answered
    kept: bytes = b""  # what of it is in the store and answers later askers; b"" when too large
    fingerprint: Fingerprint = NO_FINGERPRINT


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
        return sum(len(call.kept) for call in self.calls.values())
