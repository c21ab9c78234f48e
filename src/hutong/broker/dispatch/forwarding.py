"""Requests that change the metadata, where another node is the controller: it handles them (KIP-590 in spirit).

Strategy: the whole frame goes to the controller with the client's name, and the frame of its response goes to the
client. So a client finds out nothing of controllers, and an older one that looks for it may ask any node.

While there is no controller, or nobody can reach it, the client is answered NOT_CONTROLLER: nothing was changed, and
that is the code after which Java's and other admin clients look for the controller and try again. Where a request may
have arrived it is REQUEST_TIMED_OUT: nobody knows what became of it, and no client repeats it by itself.

Knows nothing of how nodes reach each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.configs.config_changes import LOGGER
from hutong.broker.dispatch.long_requests import LONG_FROM_BYTES
from hutong.broker.dispatch.whole_refusals import refused_whole
from hutong.foundation.errors import HutongError, ProtocolError, Refused
from hutong.reactor.connections.connection import PendingResponse
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.handling.cluster_view import ClusterView
    from hutong.broker.handling.session import ClientSession
    from hutong.wire.buffer import Buffer

_ALTERING_CONFIGS: Final = frozenset((33, 44))


def is_for_this_node(api_key: int, frame: Buffer, decode: Callable[[], Any]) -> bool:
    """True if a request changes nothing that nodes have in common: levels of loggers (KIP-412)."""
    # Nobody changes thousands of loggers, and decoding a long request would hold the loop.
    if api_key not in _ALTERING_CONFIGS or len(frame) > LONG_FROM_BYTES:
        return False
    resources = decode().resources
    return bool(resources) and all(resource.resource_type == LOGGER for resource in resources)


def forward(
    frame: Buffer,
    api_key: int,
    session: ClientSession,
    cluster: ClusterView,
    decode: Callable[[], Any],
    encode: Callable[[Any], list[Buffer]],
    parked_bytes: int,
) -> PendingResponse:
    """Have the controller answer. `decode` and `encode` are for an answer of this node, where it cannot."""
    pending = PendingResponse(parked_bytes)

    def answered(outcome: bytes | HutongError) -> None:
        if not isinstance(outcome, HutongError):
            pending.complete([outcome])
            return
        code = outcome.code if isinstance(outcome, Refused) else ErrorCode.REQUEST_TIMED_OUT
        try:
            response = refused_whole(api_key, decode(), code)
        # The controller could not read it either.
        except ProtocolError:
            pending.close_connection()
        else:
            pending.complete(encode(response))

    # A copy: the frame is lent until this returns.
    cluster.forward(bytes(frame), session, answered)
    return pending
