"""The two messages of a SCRAM client, read (RFC 5802, section 7).

Strategy: attributes are split at commas, which no value contains, and must have the RFC's order. Channel binding (`p=`)
and mandatory extensions (`m=`) are refused, as Kafka's clients send neither. Optional extensions are ignored, except
`tokenauth`: then the name is the id of a delegation token (KIP-48).

Knows nothing of credentials. What is not such a message raises ProtocolError, which repeats nothing of it.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Final

from hutong.foundation.errors import ProtocolError

_NONCE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_EXTENSION: Final = re.compile(r"[A-Za-z]+=[^\x00]+")
_ESCAPES: Final = re.compile(r"=(?:2C|3D)")
_TOKEN: Final = "tokenauth=true"


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """`header` is the GS2 header that the second message must repeat, `bare` what follows it."""

    header: str
    bare: str
    user: str
    authorization_id: str
    nonce: str
    is_token: bool = False


@dataclass(frozen=True, slots=True)
class ClientFinal:
    """`without_proof` is the message as it takes part in the signatures."""

    channel_binding: bytes
    nonce: str
    proof: bytes = field(repr=False)
    without_proof: str


def parse_client_first(message: bytes) -> ClientFirst:
    """`n,,n=user,r=nonce`."""
    text = _text(message)
    parts = text.split(",")
    if len(parts) < 4:
        raise ProtocolError("a first message without its attributes")
    flag, authorization, name, nonce, *extensions = parts
    # `p=` demands channel binding; ignoring it would hide a downgrade (RFC 5802, section 6).
    if flag.startswith("p="):
        raise ProtocolError("channel binding, which is not offered")
    # `n`: the client has no channel binding; `y`: it has, and believes that this server has none.
    if flag not in ("n", "y"):
        raise ProtocolError("a first message without the flag of channel binding")
    # RFC 5802, section 5.1: a server must refuse a mandatory extension that it does not know.
    if name.startswith("m="):
        raise ProtocolError("a mandatory extension, of which none is known")
    authorization_id = _name(_attribute(authorization, "a")) if authorization else ""
    _check_extensions(extensions)
    header = f"{flag},{authorization},"
    user = _name(_attribute(name, "n"))
    bare, is_token = text[len(header) :], _TOKEN in extensions
    return ClientFirst(header, bare, user, authorization_id, _nonce(_attribute(nonce, "r")), is_token)


def parse_client_final(message: bytes) -> ClientFinal:
    """`c=biws,r=nonce,p=proof`."""
    text = _text(message)
    parts = text.split(",")
    if len(parts) < 3:
        raise ProtocolError("a second message without its attributes")
    binding, nonce, *extensions, proof = parts
    _check_extensions(extensions)
    return ClientFinal(
        channel_binding=_base64(_attribute(binding, "c")),
        nonce=_nonce(_attribute(nonce, "r")),
        proof=_base64(_attribute(proof, "p")),
        # The signatures cover all but `,p=...`, byte for byte as the client sent it.
        without_proof=text[: -len(proof) - 1],
    )


def server_first(nonce: str, salt: bytes, iterations: int) -> str:
    return f"r={nonce},s={base64.b64encode(salt).decode()},i={iterations}"


def server_final(signature: bytes) -> str:
    return f"v={base64.b64encode(signature).decode()}"


def _text(message: bytes) -> str:
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise ProtocolError("a message that is no UTF-8") from None
    # RFC 5802's `value-char` excludes NUL.
    if "\0" in text:
        raise ProtocolError("a message with a null character")
    return text


def _attribute(part: str, letter: str) -> str:
    if not part.startswith(f"{letter}="):
        raise ProtocolError(f"a message without the attribute {letter} in its place")
    return part[2:]


def _name(escaped: str) -> str:
    """Decode a name: "=2C" is a comma, "=3D" an equals sign."""
    # Any other `=` is not valid in a `saslname` (RFC 5802, section 7).
    if not escaped or _ESCAPES.sub("", escaped).count("="):
        raise ProtocolError("a name that is not escaped as it should be")
    return escaped.replace("=2C", ",").replace("=3D", "=")


def _nonce(text: str) -> str:
    if not _NONCE.fullmatch(text):
        raise ProtocolError("a nonce that is none")
    return text


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError("an attribute that is no base64") from None


def _check_extensions(extensions: list[str]) -> None:
    if not all(_EXTENSION.fullmatch(extension) for extension in extensions):
        raise ProtocolError("an extension that is none")
