"""Events and instructions of a session on a bridge, as plain values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hutong.wire.vertx.client_frames import ClientFrame, Malformed
from hutong.wire.vertx.codes import Code

Headers = Sequence[tuple[str, str]]

# Events: what the driver reports. A client's frame is an event as it is (`ClientFrame` or `Malformed`).


@dataclass(frozen=True, slots=True)
class Denied:
    """The authenticator or the event hook refuses this frame."""

    frame: ClientFrame
    code: Code


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message came to the client's registration `number`."""

    number: int
    body: Any
    headers: Headers
    reply_address: str | None
    is_send: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply to the request that was sent to `source_address`; the client calls it by `reply_address`.

    `answer_address` is where the client may answer the reply in turn, None where the replier does not wait for that.
    """

    source_address: str
    reply_address: str
    body: Any
    headers: Headers
    answer_address: str | None


@dataclass(frozen=True, slots=True)
class AnswerFailed:
    """The request failed."""

    source_address: str
    reply_address: str
    failure_code: int
    failure_type: str
    message: str


@dataclass(frozen=True, slots=True)
class ReplyExpired:
    """The client has not answered the message whose reply address this is, in time or at all: it no longer may."""

    reply_address: str


@dataclass(frozen=True, slots=True)
class RegistrationFailed:
    """The bus did not take the registration `number`."""

    number: int


@dataclass(frozen=True, slots=True)
class SendingPaused:
    """The client does not read: too much is unsent."""


@dataclass(frozen=True, slots=True)
class SendingResumed:
    """It reads again."""


@dataclass(frozen=True, slots=True)
class TooSlow:
    """It did not read for too long, or a registration's buffer ran over meanwhile."""


@dataclass(frozen=True, slots=True)
class FrameTooLarge:
    """The transport was given a frame that it does not take."""


Event = (
    ClientFrame
    | Malformed
    | Denied
    | Delivered
    | Answered
    | AnswerFailed
    | ReplyExpired
    | RegistrationFailed
    | SendingPaused
    | SendingResumed
    | TooSlow
    | FrameTooLarge
)

# Instructions: what the driver carries out, in order.


@dataclass(frozen=True, slots=True)
class Write:
    """Send this frame to the client. `code` is the refusal in it, for the figures."""

    frame: bytes
    code: Code | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """`bus.send`, or `bus.publish`, with the frame's address, body, headers and options."""

    frame: ClientFrame


@dataclass(frozen=True, slots=True)
class BridgeRequest:
    """`bus.request`, and report Answered or AnswerFailed with the frame's address and reply address."""

    frame: ClientFrame


@dataclass(frozen=True, slots=True)
class Register:
    """Listen at `address`; report each message as Delivered with this number."""

    number: int
    address: str


@dataclass(frozen=True, slots=True)
class Unregister:
    number: int


@dataclass(frozen=True, slots=True)
class OweReply:
    """The client may answer this message: park that under `reply_address`, and report ReplyExpired when it ends so."""

    reply_address: str


@dataclass(frozen=True, slots=True)
class BridgeReply:
    """Resume what is parked under the frame's address with this frame.

    Where it `is_request`, the client in turn waits for an answer to it, which is reported as after BridgeRequest.
    """

    frame: ClientFrame
    is_request: bool


@dataclass(frozen=True, slots=True)
class FailDelivery:
    """The client cannot be given a message that waits for its answer: fail that with this text."""

    reply_address: str
    message: str


@dataclass(frozen=True, slots=True)
class PauseAll:
    """Pause every registration."""


@dataclass(frozen=True, slots=True)
class ResumeAll:
    pass


@dataclass(frozen=True, slots=True)
class Close:
    """End the connection once what was written before is sent."""

    code: Code


Instruction = (
    Write
    | Send
    | BridgeRequest
    | Register
    | Unregister
    | OweReply
    | BridgeReply
    | FailDelivery
    | PauseAll
    | ResumeAll
    | Close
)
