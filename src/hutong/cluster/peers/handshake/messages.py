"""Messages of the handshake, and the reasons for which it fails.

    lower number ── HELLO ──────▶ higher      identity, the number that it dials, nonce
    lower        ◀── CHALLENGE ── higher      identity, nonce
    lower        ── PROOF ──────▶ higher      HMAC over both, by the one that dials
    lower        ◀── WELCOME ──── higher      HMAC over both, by the one that was dialled
    lower        ── READY ──────▶ higher      from here on both may send
    either       ── REFUSAL ────▶ the other   the reason, and the end

Strategy: JSON, so that later versions can add fields. Knows nothing of secrets.
"""

from enum import IntEnum
from typing import Annotated, Final, TypeVar

import msgspec

from hutong.foundation.errors import PeerError, ProtocolError
from hutong.wire.buffer import Buffer

NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32
TEXT_MAX: Final = 200  # characters of a cluster's id and of a version
INCARNATION_MAX: Final = (1 << 63) - 1
NODE_MAX: Final = (1 << 31) - 1
HELLO: Final = 0x6001
CHALLENGE: Final = 0x6002
PROOF: Final = 0x6003
WELCOME: Final = 0x6004
READY: Final = 0x6005
REFUSAL: Final = 0x6006

_Text = Annotated[str, msgspec.Meta(max_length=TEXT_MAX)]
_Node = Annotated[int, msgspec.Meta(ge=0, le=NODE_MAX)]
_Incarnation = Annotated[int, msgspec.Meta(ge=0, le=INCARNATION_MAX)]
_Nonce = Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]


class RefusalReason(IntEnum):
    """The reason for which a node is not linked. Numbers are on the wire."""

    OTHER = 0  # one that this version does not know
    PROTOCOL_VERSION = 1
    CLUSTER = 2
    SECRET = 3
    SAME_NUMBER = 4
    OTHER_NODE = 5
    OTHER_LIFE = 6


class HandshakeRefused(PeerError):
    """The other side is not linked; `is_theirs` where it is the one that refused."""

    def __init__(self, reason: RefusalReason, detail: str = "", *, is_theirs: bool = False) -> None:
        super().__init__(f"{reason.name}: {detail}" if detail else reason.name)
        self.reason = reason
        self.detail = detail
        self.is_theirs = is_theirs


class PeerHello(msgspec.Struct, frozen=True):
    """`protocol` is the highest version that the sender speaks, `lowest_protocol` the lowest one; 0: that one alone.

    `to_node` is the number that is dialled, `clock_ms` what the sender takes for the time; 0: it does not say.
    """

    protocol: int
    cluster_id: _Text
    node: _Node
    incarnation: _Incarnation
    to_node: _Node
    nonce: _Nonce
    version: _Text = ""
    clock_ms: int = 0
    lowest_protocol: int = 0


class PeerChallenge(msgspec.Struct, frozen=True):
    """The same of the one that was dialled."""

    protocol: int
    cluster_id: _Text
    node: _Node
    incarnation: _Incarnation
    nonce: _Nonce
    version: _Text = ""
    clock_ms: int = 0
    lowest_protocol: int = 0


class PeerRefusal(msgspec.Struct, frozen=True):
    """The number of a RefusalReason."""

    reason: int


_M = TypeVar("_M", PeerHello, PeerChallenge, PeerRefusal)


def encode_handshake(message: PeerHello | PeerChallenge | PeerRefusal) -> bytes:
    return msgspec.json.encode(message)


def decode_handshake(content: Buffer, kind: type[_M]) -> _M:
    """Raises ProtocolError."""
    try:
        return msgspec.json.decode(content, type=kind)
    # Fields of later versions may nest, deeper than the parser goes.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"no {kind.__name__} of a node: {error}") from None


def reason_of(number: int) -> RefusalReason:
    return RefusalReason(number) if number in RefusalReason.__members__.values() else RefusalReason.OTHER
