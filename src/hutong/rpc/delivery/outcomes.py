"""Stored outcomes of the call memory, and its refusals as callers receive them.

Strategy: MessagePack of JSON-compatible values, so that an outcome is the same over every transport. A stream or a
reference belongs to the process that made it, so an outcome with one cannot be stored; nor can a value that cannot be
encoded.

Knows no store.
"""

from typing import Any, Final

import msgspec

from hutong.foundation.errors import CorruptData
from hutong.rpc.call import Outcome
from hutong.rpc.delivery.messages import CallRefusal, Reason
from hutong.rpc.descriptions.conversion import to_builtins
from hutong.rpc.errors import (
    NOT_EXECUTED_CODE,
    OUTCOME_UNKNOWN_CODE,
    REQUEST_EXPIRED_CODE,
    REQUEST_ID_REUSED_CODE,
    RESULT_NOT_KEPT_CODE,
    Failure,
)


class _StoredOutcome(msgspec.Struct, array_like=True):
    value: Any
    failure: Failure | None


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_StoredOutcome)
_CODES: Final = {
    Reason.FULL: NOT_EXECUTED_CODE,
    Reason.NOT_STORED: NOT_EXECUTED_CODE,
    Reason.EXPIRED: REQUEST_EXPIRED_CODE,
    Reason.FROM_THE_FUTURE: REQUEST_EXPIRED_CODE,
    Reason.REUSED: REQUEST_ID_REUSED_CODE,
    Reason.NOT_KEPT: RESULT_NOT_KEPT_CODE,
    Reason.UNKNOWN: OUTCOME_UNKNOWN_CODE,
}
_TEXTS: Final = {
    Reason.NOT_STORED: "the service could not store that the call begins, so it was not executed",
    Reason.EXPIRED: "the request is older than what the service remembers, so it is not executed now",
    Reason.FROM_THE_FUTURE: "the caller's clock is too far ahead of the service's, so the call was not executed",
    Reason.NOT_KEPT: "the call was executed, once; its result was not one that could be kept",
    Reason.UNKNOWN: "the call was begun, once, and the service ended before it had an outcome",
}


def encode_outcome(outcome: Outcome) -> bytes | None:
    """None: it cannot be kept."""
    if outcome.headers or outcome.has_references:
        return None
    try:
        return _ENCODER.encode(_StoredOutcome(to_builtins(outcome.value), outcome.failure))
    except (TypeError, ValueError, OverflowError):
        return None


def decode_outcome(kept: bytes) -> Outcome:
    """Raises CorruptData."""
    try:
        found = _DECODER.decode(kept)
    except msgspec.DecodeError as error:
        raise CorruptData(f"an outcome that was kept cannot be read: {error}") from None
    return Outcome(found.value, found.failure, is_encoded=True)


def refused(refusal: CallRefusal) -> Outcome:
    """Return the outcome that the caller receives for a refusal."""
    if refusal.reason is Reason.FULL:
        text = f"the service remembers too much ({refusal.limit} is {refusal.maximum}), so the call was not executed"
    elif refusal.reason is Reason.REUSED:
        text = (
            f"the request id belongs to an earlier call of {refusal.action!r} with its own arguments, so this call was "
            "not executed; give each call an id of its own"
        )
    else:
        text = _TEXTS[refusal.reason]
    return Outcome(failure=Failure(_CODES[refusal.reason], text))
