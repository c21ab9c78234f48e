"""Events and instructions of a SockJS session, as plain values."""

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
    """True while the connection under this receiver holds too much: the client does not read."""

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
    """The loop iteration ends: flush the messages collected in it."""


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
    """True while the application should send no more."""

    is_congested: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """The session is over: tell the application."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Nothing more will happen to the session: its number is free again."""


Instruction = Put | EndSession | SessionOpened | Give | Congested | Ended | Forget
