"""What a SockJS session is told (events) and what it wants done (instructions). Values, nothing more."""

from dataclasses import dataclass

# Events. A receiver is a response or a WebSocket through which frames go to the client; numbers tell them apart.


@dataclass(frozen=True, slots=True)
class Attached:
    """A receiver is there. It takes frames until `room_bytes` have gone, so one where that is 0; any where None."""

    receiver: int
    room_bytes: int | None


@dataclass(frozen=True, slots=True)
class ReceiverLost:
    """The connection under this receiver has gone."""

    receiver: int


@dataclass(frozen=True, slots=True)
class Blocked:
    """Whether the connection under this receiver holds more than it should: the client does not read."""

    receiver: int
    is_blocked: bool


@dataclass(frozen=True, slots=True)
class Came:
    """Messages of the client."""

    texts: list[str]


@dataclass(frozen=True, slots=True)
class Said:
    """A message for the client, in UTF-8. It leaves with the next Flush."""

    message: bytes


@dataclass(frozen=True, slots=True)
class Flush:
    """Whatever was said in this turn has been said."""


@dataclass(frozen=True, slots=True)
class Shut:
    """The application closes the session."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class HeartbeatTick:
    """Time has passed."""


Event = Attached | ReceiverLost | Blocked | Came | Said | Flush | Shut | HeartbeatTick

# Instructions, to be carried out in order.


@dataclass(frozen=True, slots=True)
class Put:
    """Send this frame through the receiver."""

    receiver: int
    frame: str


@dataclass(frozen=True, slots=True)
class EndSession:
    """The receiver is done: its response is complete, its WebSocket is closed (with the code, where there is one)."""

    receiver: int
    code: int = 1000
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """The session begins: tell the application."""


@dataclass(frozen=True, slots=True)
class Give:
    """Give these messages to the application."""

    texts: list[str]


@dataclass(frozen=True, slots=True)
class Congested:
    """Whether the application should say no more for now."""

    is_congested: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """The session is over: tell the application."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Nothing more will happen to the session: its number is free again."""


Instruction = Put | EndSession | SessionOpened | Give | Congested | Ended | Forget
