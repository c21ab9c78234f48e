"""A leader's proposal of another in-sync set, and the controller's reply, as they go from node to node: JSON.

Knows nothing of links, nor of whether a proposal is good.
"""

from typing import Final, TypeVar

import msgspec

from hutong.cluster.controller.messages import ProposalReply
from hutong.cluster.records import REPLICAS_MAX, decode_group, encode_group
from hutong.foundation.errors import ProtocolError

PROPOSAL_BYTES_MAX: Final = 64 * 1024
_NULL: Final = b"null"

T = TypeVar("T")


class GroupProposal(msgspec.Struct, frozen=True):
    """The leader of `epoch` proposes these (node, incarnation) besides itself, instead of the set of `version`."""

    group: str
    epoch: int
    version: int
    followers: tuple[tuple[int, int], ...]


class _ReplyValue(msgspec.Struct, frozen=True):
    is_taken: bool
    state: msgspec.Raw  # null where there is no such group


def encode_proposal(proposal: GroupProposal) -> bytes:
    return msgspec.json.encode(proposal)


def decode_proposal(content: bytes) -> GroupProposal:
    """Raises ProtocolError."""
    proposal = _decode(content, GroupProposal)
    if len(proposal.followers) >= REPLICAS_MAX or len(dict(proposal.followers)) != len(proposal.followers):
        raise ProtocolError("a proposal is none: a follower twice, or too many")
    return proposal


def encode_proposal_reply(reply: ProposalReply) -> bytes:
    state = _NULL if reply.state is None else encode_group(reply.state)
    return msgspec.json.encode(_ReplyValue(reply.is_taken, msgspec.Raw(state)))


def decode_proposal_reply(content: bytes) -> ProposalReply:
    """Raises ProtocolError."""
    value = _decode(content, _ReplyValue)
    state = bytes(value.state)
    return ProposalReply(value.is_taken, None if state == _NULL else decode_group(state))


def _decode(content: bytes, kind: type[T]) -> T:
    if len(content) > PROPOSAL_BYTES_MAX:
        raise ProtocolError(f"a proposal of {len(content)} bytes")
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a proposal is none: {error}") from None
