"""The history of calls and of bus messages: what callers asked for and were answered, and what a service carried out.

Strategy: as in `history`. Each call has a name of its own, and each time that it is carried out a number of its own, so
that an answer shows which execution it is of.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallBegun:
    """A caller begins a call. It may be sent `attempts_max` times, and must end within `timeout_ms` and a margin."""

    at_us: int
    client: str
    name: str
    attempts_max: int
    timeout_ms: int

    def __str__(self) -> str:
        return f"calls {self.name}, {self.attempts_max} attempts at most, timeout {self.timeout_ms} ms"


@dataclass(frozen=True, slots=True)
class CallCarriedOut:
    """The service did what a call asked for. `client` is the service; the number has its process."""

    at_us: int
    client: str
    name: str
    number: str

    def __str__(self) -> str:
        return f"carries out {self.name} as {self.number}"


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """A caller got the service's answer, which names a call and one of its executions."""

    at_us: int
    client: str
    name: str
    answer: str
    number: str

    def __str__(self) -> str:
        return f"is answered for {self.name}: {self.answer} was carried out as {self.number}"


@dataclass(frozen=True, slots=True)
class CallUnanswered:
    """A caller was given an error in the place of an answer. `error` is its class."""

    at_us: int
    client: str
    name: str
    error: str

    def __str__(self) -> str:
        return f"gets {self.error} for {self.name}"


@dataclass(frozen=True, slots=True)
class CallAbandoned:
    """A caller gave a call up: nothing may come for it any more."""

    at_us: int
    client: str
    name: str

    def __str__(self) -> str:
        return f"abandons {self.name}"


@dataclass(frozen=True, slots=True)
class CallerClosed:
    """A caller closes its client, which ends its calls."""

    at_us: int
    client: str

    def __str__(self) -> str:
        return "closes its client"


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """The service begins to make the items of a stream. The number has its process."""

    at_us: int
    client: str
    name: str
    number: str

    def __str__(self) -> str:
        return f"opens the stream {self.name} as {self.number}"


@dataclass(frozen=True, slots=True)
class StreamClosed:
    """The service makes no more items: it has made all, or nobody wants more."""

    at_us: int
    client: str
    name: str
    number: str

    def __str__(self) -> str:
        return f"closes the stream {self.name}, {self.number}"


@dataclass(frozen=True, slots=True)
class StreamRead:
    """A caller has read a stream of `expected` items to its end, or up to an error. Items are numbers from 0 on."""

    at_us: int
    client: str
    name: str
    items: tuple[int, ...]
    expected: int
    error: str  # empty where the stream ended as streams do

    def __str__(self) -> str:
        how = f", then {self.error}" if self.error else ""
        return f"reads {len(self.items)} of {self.expected} items of the stream {self.name}{how}"


@dataclass(frozen=True, slots=True)
class BusMessageSent:
    """A client of a bridge sends a message. `number` counts those of its connection, which `session` numbers."""

    at_us: int
    client: str
    session: int
    number: int
    address: str
    is_publication: bool

    def __str__(self) -> str:
        return f"{'publishes' if self.is_publication else 'sends'} {self.session}/{self.number} to {self.address}"


@dataclass(frozen=True, slots=True)
class BusMessageReceived:
    """A client of a bridge got a message that it, or another one, had sent."""

    at_us: int
    client: str
    session: int
    address: str
    sender: str
    sender_session: int
    number: int

    def __str__(self) -> str:
        return f"receives {self.sender_session}/{self.number} of {self.sender} at {self.address}"


CallHappening = (
    CallBegun
    | CallCarriedOut
    | CallAnswered
    | CallUnanswered
    | CallAbandoned
    | CallerClosed
    | StreamOpened
    | StreamClosed
    | StreamRead
    | BusMessageSent
    | BusMessageReceived
)
