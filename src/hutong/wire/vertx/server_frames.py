"""Frames that the event-bus bridges send to their clients, in the words of either bridge.

Strategy: structs whose members are in Vert.x's order and are left out where Vert.x leaves them out, so that what a
client receives is the same byte for byte. Knows nothing of sockets, of what is permitted, or of who is registered.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from hutong.foundation.errors import HutongError
from hutong.wire.vertx.codes import Code, Dialect

_encode: Final = msgspec.json.Encoder().encode


class Unencodable(HutongError):
    """A body or header that JSON cannot carry: an object of a class, a lone surrogate, nesting without end."""


class _Message(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False):
    """Members in the order in which Vert.x writes them; one that is None is left out, as there."""

    type: str
    address: str
    replyAddress: str | None = None
    headers: dict[str, Any] | None = None
    body: Any = None
    send: bool | None = None


class _RefusalFrame(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False):
    type: str
    address: str | None = None
    sourceAddress: str | None = None
    failureCode: int | None = None
    failureType: str | None = None
    message: str | None = None
    body: str | None = None


PONG: Final = b'{"type":"pong"}'


def encode_message(
    dialect: Dialect,
    address: str,
    body: object,
    headers: Sequence[tuple[str, str]] = (),
    reply_address: str | None = None,
    *,
    is_send: bool = True,
) -> bytes:
    """A message for a client, or the reply to one of its requests, whose reply address is then `address`.

    Headers of one name: the last over TCP, a list over SockJS, as Vert.x has it. Bytes become base64. Raises
    Unencodable.
    """
    try:
        if dialect is Dialect.TCP:
            return _encode(
                _Message(
                    type="message",
                    address=address,
                    replyAddress=reply_address,
                    headers=dict(headers),
                    body=body,
                    send=is_send,
                )
            )
        shown = _grouped(headers) if headers else None
        return _encode(
            {"type": "rec", "address": address}
            | ({"replyAddress": reply_address} if reply_address is not None else {})
            | ({"headers": shown} if shown else {})
            | {"body": body}
        )
    except (TypeError, ValueError, RecursionError, OverflowError) as error:  # UnicodeEncodeError is a ValueError
        raise Unencodable(f"the body or a header for {address!r} cannot be written as JSON: {error}") from None


class FrameEncoder:
    """`encode_message` that remembers the last publication, which mostly goes to many clients one after the other.

    It is known again by the very object that is its body, so nobody may change a body meanwhile.
    """

    __slots__ = ("_address", "_body", "_dialect", "_frame", "_headers")

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._frame: bytes | None = None
        self._body: object = None
        self._address = ""
        self._headers: Sequence[tuple[str, str]] = ()

    def encode(
        self,
        address: str,
        body: object,
        headers: Sequence[tuple[str, str]],
        reply_address: str | None,
        *,
        is_send: bool,
    ) -> bytes:
        """Raises Unencodable."""
        if is_send or reply_address is not None:
            return encode_message(self._dialect, address, body, headers, reply_address, is_send=is_send)
        if self._frame is None or body is not self._body or address != self._address or headers != self._headers:
            self._frame = None
            self._frame = encode_message(self._dialect, address, body, headers, is_send=False)
            self._body, self._address, self._headers = body, address, headers
        return self._frame


def _grouped(headers: Sequence[tuple[str, str]]) -> dict[str, str | list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, value in headers:
        grouped.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in grouped.items()}


def encode_failure(
    dialect: Dialect,
    address: str,
    source_address: str,
    failure_code: int,
    failure_type: str,
    message: str,
    body: str | None = None,
) -> bytes:
    """The failure of a client's request: `address` is its reply address, `source_address` where it was sent."""
    return _encode(
        _RefusalFrame(
            type="err",
            address=address,
            sourceAddress=source_address if dialect is Dialect.TCP else None,
            failureCode=failure_code,
            failureType=failure_type,
            message=message.encode(errors="replace").decode(),
            body=body,
        )
    )


def encode_error(dialect: Dialect, code: Code, address: str = "", reply_address: str | None = None) -> bytes:
    """Encode the answer to a refused frame.

    For a request the answer carries its reply address too, with failure code -1 and type ERROR, so that the client
    fails that request at once. (Vert.x omits it, and the request never ends.)
    """
    message, body = (code, None) if dialect is Dialect.TCP else (None, code)
    if reply_address is None:
        return _encode(_RefusalFrame(type="err", message=message, body=body))
    return encode_failure(dialect, reply_address, address, -1, "ERROR", code, body)
