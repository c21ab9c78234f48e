"""Changes that clients ask for, as values, and their answers; both as JSON for the node that writes.

Strategy: in a cluster one node writes to the topic, and another one hands it what its clients ask for. A refusal comes
back with its code and its words, so that a client cannot see which node it has asked.

Decides nothing. Raises ProtocolError for bytes that no node sends.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from hutong.foundation.errors import ProtocolError, Refused
from hutong.registry.values import Compatibility, Mode, NotRecorded, SchemaText, UnknownOutcome


class RegisterSchema(msgspec.Struct, frozen=True, tag=True):
    """A schema for a subject. Id and version are given in mode IMPORT alone."""

    subject: str
    text: SchemaText
    normalize: bool = False
    id: int | None = None
    version: int | None = None


class DeleteSubject(msgspec.Struct, frozen=True, tag=True):
    subject: str
    is_permanent: bool


class DeleteVersion(msgspec.Struct, frozen=True, tag=True):
    """`version` is None for the latest."""

    subject: str
    version: int | None
    is_permanent: bool


class SetLevel(msgspec.Struct, frozen=True, tag=True):
    """A level of a subject or a context, of all for None; None removes it."""

    scope: str | None
    level: Compatibility | None


class SetMode(msgspec.Struct, frozen=True, tag=True):
    """The same of a mode."""

    scope: str | None
    mode: Mode | None
    is_forced: bool = False


Change: TypeAlias = RegisterSchema | DeleteSubject | DeleteVersion | SetLevel | SetMode


@dataclass(frozen=True, slots=True)
class ChangeAnswer:
    """The outcome of a change: the version that was registered or deleted, its id, the versions, or the setting."""

    id: int = 0
    version: int = 0
    versions: tuple[int, ...] = ()
    setting: str = ""


_Kind: TypeAlias = Literal["final", "not recorded", "unknown"]


class _ChangeRefusal(msgspec.Struct, tag=True):
    code: int
    message: str
    kind: _Kind = "final"


class _ChangeAnswered(msgspec.Struct, tag=True):
    answer: ChangeAnswer


_decode_change: Final[Callable[[bytes], Change]] = msgspec.json.Decoder(Change).decode
_decode_outcome: Final[Callable[[bytes], _ChangeAnswered | _ChangeRefusal]] = msgspec.json.Decoder(
    _ChangeAnswered | _ChangeRefusal
).decode


def is_repeatable(change: Change) -> bool:
    """True where a second attempt gives the same answer as the first, although that was carried out."""
    return not isinstance(change, DeleteSubject | DeleteVersion)


def encode_change(change: Change) -> bytes:
    return msgspec.json.encode(change)


def decode_change(data: bytes) -> Change:
    try:
        return _decode_change(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"no change of a schema registry: {error}") from None


def encode_outcome(outcome: ChangeAnswer | Refused) -> bytes:
    if isinstance(outcome, ChangeAnswer):
        return msgspec.json.encode(_ChangeAnswered(outcome))
    kind: _Kind = "final"
    if isinstance(outcome, NotRecorded | UnknownOutcome):
        kind = "not recorded" if isinstance(outcome, NotRecorded) else "unknown"
    return msgspec.json.encode(_ChangeRefusal(outcome.code, outcome.message, kind))


def decode_outcome(data: bytes) -> ChangeAnswer:
    """The answer of the node that writes. Raises its refusal."""
    try:
        found = _decode_outcome(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"no answer of a schema registry: {error}") from None
    if isinstance(found, _ChangeAnswered):
        return found.answer
    if found.kind == "final":
        raise Refused(found.code, found.message)
    raise NotRecorded(found.message) if found.kind == "not recorded" else UnknownOutcome(found.message)
