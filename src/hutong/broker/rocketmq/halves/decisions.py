"""Records of the topic of decisions: what became of half messages, and how often their producers were asked.

    i8 version, i8 kind, i64 offset of the half message, i16 times asked

ProtocolError is the only error that leaves the decoder.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer

_VERSION: Final = 1
_FIELDS: Final = struct.Struct(">bbqh")


class HalfOutcome(IntEnum):
    """The kinds of records. All but CHECKED end a half message."""

    COMMITTED = 1
    ROLLED_BACK = 2
    GIVEN_UP = 3
    CHECKED = 4


class Decision(NamedTuple):
    """One record. `times` is how often the producer was asked so far."""

    outcome: HalfOutcome
    offset: int
    times: int = 0


def encode_decision(decision: Decision) -> bytes:
    """The value of the record."""
    return _FIELDS.pack(_VERSION, decision.outcome, decision.offset, decision.times)


def decode_decision(value: Buffer) -> Decision:
    """The decision in a record's value. Raises ProtocolError."""
    if len(value) != _FIELDS.size:
        raise ProtocolError(f"a decision of {len(value)} bytes")
    version, kind, offset, times = _FIELDS.unpack(value)
    if version != _VERSION or kind not in iter(HalfOutcome) or offset < 0 or times < 0:
        raise ProtocolError(f"a decision of version {version} and kind {kind} about offset {offset}")
    return Decision(HalfOutcome(kind), offset, times)
