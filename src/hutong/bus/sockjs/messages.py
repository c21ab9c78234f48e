"""Events and instructions of a SockJS session, as plain values."""

from dataclasses import dataclass

# Events. A receiver is a response or a WebSocket through which frames go to the client; numbers tell them apart.


@dataclass(frozen=True, slots=True)
class ReceiverAttached:
    """A receiver is there. It takes frames until `room_bytes` have gone, so one where that is 0; any where None."""

    receiver: int
    room_bytes: int | None


@dataclass(frozen=True, slots=True)
class ReceiverLost:
    """The connection under this receiver has gone."""

    receiver: int


@dataclass(frozen=True, slots=True)
class ReceiverBlocked:
    """True while the connection under this receiver holds too much: the client does not read."""

    receiver: int
    is_blocked: bool


@dataclass(frozen=True, slots=True)
class MessagesReceived:
    """Messages of the client."""

    texts: list[str]


@dataclass(frozen=True, slots=True)
class MessageQueued:
    """A message for the client, in UTF-8. It leaves with the next Flush."""

    message: bytes


@dataclass(frozen=True, slots=True)
class Flush:
    """The loop iteration ends: flush the messages collected in it."""


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """The application closes the session."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class SessionTick:
    """Time has passed."""


Event = (
    ReceiverAttached
    | ReceiverLost
    | ReceiverBlocked
    | MessagesReceived
    | MessageQueued
    | Flush
    | CloseRequested
    | SessionTick
)

# Instructions, to be carried out in order.


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Send this frame through the receiver."""

    receiver: int
    frame: str


@dataclass(frozen=True, slots=True)
class EndReceiver:
    """The receiver is done: its response is complete, its WebSocket is closed (with the code, where there is one)."""

    receiver: int
    code: int = 1000
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """The session begins: connect it to the application."""


@dataclass(frozen=True, slots=True)
class GiveMessages:
    """Give these messages to the application."""

    texts: list[str]


@dataclass(frozen=True, slots=True)
class Congested:
    """True while the application should send no more."""

    is_congested: bool


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The session is over: notify the application."""


@dataclass(frozen=True, slots=True)
class ForgetSession:
    """Nothing more will happen to the session: its number is free again."""


Instruction = SendFrame | EndReceiver | SessionOpened | GiveMessages | Congested | SessionEnded | ForgetSession
