"""The questions that nodes ask each other, and their answers, as values.

    SET_PROPOSED        a group's leader asks the controller for another in-sync set
    IDS_ASKED           a node asks the controller for a block of producer ids
    KAFKA_FORWARDED     a node has a client's request, which the controller must handle
    KAFKA_ASKED         a node has a request of its own for another node
    COMMANDED           an operator's command or question for the controller, in JSON
    REPLICA_FAILED      a node tells the controller that its replica of a group has failed
    REPLICA_SHORT       a node tells the controller whether its replica of a group is short of space
    YIELD_ASKED         the controller asks a leader to wait for its followers before another one leads
    PROGRESS_ASKED      a node asks what another knows of the progress of replicas
    METADATA_ASKED      a node asks another who leads the metadata, as far as that one knows
    SHARE_PROGRESS      a node reads or writes a share group's progress, which another node keeps
    COMMAND_HANDED_OVER a node has a RocketMQ client's command, which another one must handle
    PART_ASKED          a part of a node, such as its schema registry, asks the same part of another one

Knows nothing of connections, nor of what is done with a question.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from hutong.cluster.peers.port import PeerMessage
from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer

_INT64_MAX: Final = 2**63 - 1


class QuestionCode(IntEnum):
    """The codes of questions. Those of an older version stay as they are."""

    SET_PROPOSED = 1
    IDS_ASKED = 2
    KAFKA_FORWARDED = 3
    KAFKA_ASKED = 4
    COMMANDED = 5
    REPLICA_FAILED = 6
    SHARE_PROGRESS = 7
    REPLICA_SHORT = 8
    YIELD_ASKED = 9
    PROGRESS_ASKED = 10
    METADATA_ASKED = 11
    COMMAND_HANDED_OVER = 12
    PART_ASKED = 13


@dataclass(frozen=True, slots=True)
class ForwardedRequest:
    """A client's request as it came, with the name of its client and the listener that it came by."""

    principal_type: str
    principal_name: str
    listener: str
    address: str
    port: int
    frame: Buffer
    is_by_token: bool = False  # whether the client logged in with a delegation token


def encode_forwarded(asked: ForwardedRequest, code: QuestionCode = QuestionCode.KAFKA_FORWARDED) -> PeerMessage:
    fields = {
        "type": asked.principal_type,
        "name": asked.principal_name,
        "listener": asked.listener,
        "address": asked.address,
        "port": str(asked.port),
    }
    if asked.is_by_token:
        fields["token"] = "1"
    return PeerMessage(code, fields, asked.frame)


def decode_forwarded(message: PeerMessage) -> ForwardedRequest:
    """Raises ProtocolError for what no node sends."""
    fields = message.fields
    missing = next((name for name in ("type", "name", "listener", "address") if name not in fields), None)
    if missing is not None:
        raise ProtocolError(f"a forwarded request without {missing}")
    return ForwardedRequest(
        principal_type=fields["type"],
        principal_name=fields["name"],
        listener=fields["listener"],
        address=fields["address"],
        port=_field(fields, "port"),
        frame=message.body,
        is_by_token="token" in fields,
    )


def encode_block(first: int, end: int) -> PeerMessage:
    """A block of producer ids, as an answer."""
    return PeerMessage(0, {"first": str(first), "end": str(end)})


def decode_block(message: PeerMessage) -> tuple[int, int]:
    """Raises ProtocolError for what no node sends."""
    first, end = _field(message.fields, "first"), _field(message.fields, "end")
    if end <= first:
        raise ProtocolError(f"a block of producer ids from {first} to {end}")
    return first, end


def _field(fields: Mapping[str, str], name: str) -> int:
    return _number(fields.get(name, ""), name)


def encode_short(group: str, *, is_short: bool) -> PeerMessage:
    return PeerMessage(QuestionCode.REPLICA_SHORT, {"short": str(int(is_short))}, group.encode())


def decode_short(message: PeerMessage) -> tuple[str, bool]:
    """The group, and whether it is short of space there. A name that no group has does no harm: nobody looks it up."""
    return bytes(message.body).decode(errors="replace"), message.fields.get("short") == "1"


def encode_yield(group: str, epoch: int) -> PeerMessage:
    return PeerMessage(QuestionCode.YIELD_ASKED, {"epoch": str(epoch)}, group.encode())


def decode_yield(message: PeerMessage) -> tuple[str, int]:
    """The group, and the epoch of its leader. Raises ProtocolError."""
    return bytes(message.body).decode(errors="replace"), _field(message.fields, "epoch")


def _number(text: str, name: str) -> int:
    # `int` also takes signs, spaces and digits of other scripts, and texts of any length.
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) > _INT64_MAX:
        raise ProtocolError(f"{name} is {text[:40]!r}, which is no number")
    return int(text)
