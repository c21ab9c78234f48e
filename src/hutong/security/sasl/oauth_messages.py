"""The messages of OAUTHBEARER (RFC 7628, section 3; KIP-255).

Strategy: a GS2 header, then pairs of key and value between control characters. Extensions of clients (KIP-342) are
checked for their form and ignored. Channel binding is refused, as in SCRAM.

Knows nothing of tokens. What is not such a message raises ProtocolError, which repeats nothing of it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

from hutong.foundation.errors import ProtocolError

MESSAGE_BYTES_MAX: Final = 64 * 1024
PAIRS_MAX: Final = 100
ABORT: Final = b"\x01"
"""The client's answer to an error, with which it ends the exchange."""
_SEPARATOR: Final = "\x01"
_PAIR: Final = re.compile(r"([A-Za-z]+)=([\x20-\x7e\t\r\n]*)")
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*) *", re.IGNORECASE)  # RFC 6750, section 2.1
_ESCAPES: Final = re.compile(r"=(?:2C|3D)")


@dataclass(frozen=True, slots=True)
class ClientToken:
    """The client's only message with content. `authorization_id` is empty unless it asks for a name."""

    authorization_id: str
    token: str = field(repr=False)


def parse_client_token(message: bytes) -> ClientToken:
    """`n,a=user,^Aauth=Bearer token^A^A`."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise ProtocolError(f"a message of more than {MESSAGE_BYTES_MAX} bytes")
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise ProtocolError("a message that is no UTF-8") from None
    header, *pairs = text.split(_SEPARATOR, PAIRS_MAX + 2)
    # Each pair ends with a separator, and one more ends the message.
    if len(pairs) < 2 or pairs.pop() or pairs.pop():
        raise ProtocolError("a message without its end")
    if len(pairs) > PAIRS_MAX:
        raise ProtocolError(f"a message with more than {PAIRS_MAX} pairs")
    return ClientToken(_authorization_id(header), _token(pairs))


def refusal(status: str, scope: str = "") -> bytes:
    """The server's answer to a token that it does not accept (RFC 7628, section 3.2.2)."""
    answer = {"status": status} | ({"scope": scope} if scope else {})
    return json.dumps(answer, separators=(",", ":")).encode()


def _authorization_id(header: str) -> str:
    flag, *rest = header.split(",")
    # `p=` demands channel binding, which is not offered; `y` says the client would have it (RFC 5801, section 5).
    if flag not in ("n", "y") or len(rest) != 2 or rest[1]:
        raise ProtocolError("a message without the header of GS2")
    escaped = rest[0]
    if not escaped:
        return ""
    name = escaped.removeprefix("a=")
    # Any other `=` is not valid in a `saslname` (RFC 5802, section 7).
    if name == escaped or not name or "=" in _ESCAPES.sub("", name) or not name.isprintable():
        raise ProtocolError("a name that is not escaped as it should be")
    return name.replace("=2C", ",").replace("=3D", "=")


def _token(pairs: list[str]) -> str:
    values: dict[str, str] = {}
    for pair in pairs:
        found = _PAIR.fullmatch(pair)
        if found is None:
            raise ProtocolError("a pair that is none")
        if found[1] in values:
            raise ProtocolError("a key that comes twice")
        values[found[1]] = found[2]
    bearer = _BEARER.fullmatch(values.get("auth", ""))
    if bearer is None:
        raise ProtocolError("a message without a bearer token")
    return bearer[1]
