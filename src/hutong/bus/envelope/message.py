"""Messages as their recipient sees them.

Strategy: a send fills four fields. Fields that few messages need (codec, credit, published or sent) are in a larger
class; headers and the text of a reply address are made when somebody asks for them.

Knows no route: replies go through the bus of the request they answer.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from msgspec import Struct

from hutong.bus.envelope.bodies import IMMUTABLE, WITHOUT_CODEC, copied
from hutong.bus.envelope.headers import Headers
from hutong.bus.errors import FailureType, ReplyError
from hutong.bus.options import DEFAULT, DeliveryOptions, GivenHeaders, given_options

if TYPE_CHECKING:
    from hutong.bus.envelope.reply import Reply

REPLY_PREFIX: Final = "__hutong.reply."
"""The prefix of every reply address; nobody registers a consumer there."""
_SYSTEM_NAMES: Final[dict[type, str]] = {
    type(None): "null",
    bool: "boolean",
    float: "double",
    str: "string",
    bytes: "buffer",
    dict: "jsonobject",
    list: "jsonarray",
}


class Message(Struct, eq=False, gc=False):
    """One message, delivered to one recipient. Its body and headers are the recipient's own to change.

    A struct, because it is made in less than half of the time that a class with slots takes. The collector does not
    look for cycles through it: one that is just this class has a body that cannot change, and nobody awaits a reply.
    """

    _address: str | int  # of a reply the number of its wait: a reference to that would be a cycle
    body: Any
    _headers: Headers | tuple[tuple[str, str], ...] | None = None  # as sent, until somebody asks for them
    _reply: Any = None  # the Reply that waits, if somebody does

    is_send: ClassVar[bool] = True  # and not published
    _codec: ClassVar[Any] = None
    _credit: ClassVar[Any] = None
    _variables: ClassVar[Any] = None

    @property
    def address(self) -> str:
        """The address it was sent to; of a reply, the reply address."""
        address = self._address
        return address if isinstance(address, str) else f"{REPLY_PREFIX}{address}"

    @property
    def headers(self) -> Headers:
        headers = self._headers
        if not isinstance(headers, Headers):
            headers = self._headers = Headers.of(headers or ())
        return headers

    @property
    def header_pairs(self) -> tuple[tuple[str, str], ...]:
        """The headers of this moment, for another message."""
        headers = self._headers
        return headers.pairs if isinstance(headers, Headers) else headers or ()

    @property
    def reply_address(self) -> str | None:
        """The address at which a reply is awaited, or None. `bus.send` to it does what `reply` does."""
        return None if self._reply is None else cast("str", self._reply.address)

    @property
    def codec_name(self) -> str:
        """The name of the codec that carries the body."""
        if self._codec is not None:
            return str(self._codec.name)
        if type(self.body) is int:
            return "int" if -(1 << 31) <= self.body < 1 << 31 else "long"
        return _SYSTEM_NAMES[type(self.body)]

    def reply(
        self,
        body: Any = None,
        options: DeliveryOptions = DEFAULT,
        headers: GivenHeaders = None,
        codec: str | None = None,
    ) -> None:
        """Answer a request; a ReplyError as body fails it. Harmless where no reply is awaited (any more).

        `headers` and `codec` are keywords, as those of `EventBus.send`. Raises TypeError for a body that needs a codec
        and has none.
        """
        reply = self._reply
        if reply is None:
            return
        kind = type(body)
        if (
            options is not DEFAULT
            or headers is not None
            or codec is not None
            or kind not in WITHOUT_CODEC
            or not reply.bus.is_plain
        ):
            reply.bus.answer(reply, body, given_options(options, headers, codec))
        elif kind in IMMUTABLE:
            reply.resume(Message(reply._number, body))
        else:
            reply.resume(TrackedMessage(reply._number, copied(body)))

    def reply_and_request(
        self,
        body: Any = None,
        options: DeliveryOptions = DEFAULT,
        *,
        headers: GivenHeaders = None,
        timeout: float | None = None,
        codec: str | None = None,
    ) -> "Reply":
        """Answer a request, and await an answer to that. Fails with NO_HANDLERS where no reply is awaited any more.

        Raises ValueError for a message that is no request.
        """
        if self._reply is None:
            raise ValueError(f"nobody awaits a reply to this message to {self.address!r}: it was not sent as a request")
        options = given_options(options, headers, codec, timeout)
        return cast("Reply", self._reply.bus.answer_and_request(self._reply, body, options))

    def fail(self, code: int, text: str = "") -> None:
        """Fail a request with a code and text of your own: RECIPIENT_FAILURE. Harmless where no reply is awaited."""
        self.reply(ReplyError(FailureType.RECIPIENT_FAILURE, code, text))

    def __repr__(self) -> str:
        kind = "send" if self.is_send else "publish"
        return f"<{type(self).__name__} {kind} {self.address!r} body={self.body!r}>"


class TrackedMessage(Message, eq=False, gc=True):
    """A message that the collector tracks: somebody awaits a reply to it, or its body may change."""


class FullMessage(Message, eq=False, gc=True):
    """A message with all that a message can have."""

    is_send: bool = True  # type: ignore[misc]  # a field here, a constant of most messages
    _codec: Any = None  # type: ignore[misc]
    _credit: Any = None  # type: ignore[misc]
    _variables: Any = None  # type: ignore[misc]  # the sender's context variables
