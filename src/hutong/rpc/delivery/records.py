"""Records of the call memory, as keys and values of a table: readable keys, MessagePack values.

    h                      the horizon: {"at": ms}
    s/SESSION              a session:   {"below": sequence, "heard": ms}
    c/SESSION/SEQUENCE     a call:      {"known": "started" | "finished" | "not kept", "at": ms, "outcome": bytes,
                            "action": method, "digest": bytes}

Records of older releases have neither action nor digest.

Knows no table. Unreadable records raise CorruptData: a memory loaded in part would execute calls twice.
"""

from typing import Final

import msgspec

from hutong.foundation.errors import CorruptData, ProtocolError
from hutong.rpc.delivery.ids import CallId, parse_request_id
from hutong.rpc.delivery.messages import (
    HORIZON,
    CallRecord,
    Change,
    Fingerprint,
    HorizonRecord,
    Key,
    Known,
    Record,
    SessionRecord,
)


class _HorizonValue(msgspec.Struct):
    at: int


class _SessionValue(msgspec.Struct):
    below: int
    heard: int


class _CallValue(msgspec.Struct, omit_defaults=True):
    known: Known
    at: int
    outcome: bytes = b""
    action: str = ""
    digest: bytes = b""


_ENCODER: Final = msgspec.msgpack.Encoder()
_HORIZON: Final = msgspec.msgpack.Decoder(_HorizonValue)
_SESSION: Final = msgspec.msgpack.Decoder(_SessionValue)
_CALL: Final = msgspec.msgpack.Decoder(_CallValue)


def encode_key(key: Key) -> bytes:
    if isinstance(key, CallId):
        return b"c/%b/%d" % (key.session.encode(), key.sequence)
    return b"s/" + key.encode() if isinstance(key, str) else b"h"


def encode_record(record: Record | None) -> bytes | None:
    match record:
        case CallRecord(known, at_ms, outcome, fingerprint):
            return _ENCODER.encode(_CallValue(known, at_ms, outcome, *fingerprint))
        case SessionRecord(acked_below, heard_ms):
            return _ENCODER.encode(_SessionValue(acked_below, heard_ms))
        case HorizonRecord(at_ms):
            return _ENCODER.encode(_HorizonValue(at_ms))
    return None


def decode_change(key: bytes, value: bytes | None) -> Change:
    """Raises CorruptData."""
    try:
        kind, _, name = key.decode("ascii").partition("/")
        if kind == "c":
            return parse_request_id(name), None if value is None else _call(value)
        if kind == "s":
            return parse_request_id(name + "/0").session, None if value is None else _session(value)
        if key == b"h":
            return HORIZON, None if value is None else HorizonRecord(_HORIZON.decode(value).at)
    except (UnicodeDecodeError, ProtocolError, msgspec.DecodeError) as error:
        raise CorruptData(f"the record {key[:80]!r} of a memory of calls cannot be read: {error}") from None
    raise CorruptData(f"the record {key[:80]!r} belongs to no memory of calls")


def _call(value: bytes) -> CallRecord:
    call = _CALL.decode(value)
    return CallRecord(call.known, call.at, call.outcome, Fingerprint(call.action, call.digest))


def _session(value: bytes) -> SessionRecord:
    session = _SESSION.decode(value)
    return SessionRecord(session.below, session.heard)
