"""The session of the node itself, for requests in its own name to the controller and to other nodes.

Knows nothing of what is asked.
"""

from __future__ import annotations

from typing import Final

from hutong.broker.handling.listeners import Listener, SecurityProtocol
from hutong.broker.handling.session import ClientSession
from hutong.foundation.waiting.table import Owner
from hutong.security.principals import CLUSTER_NODE

_INSIDE: Final = Listener("NODES", SecurityProtocol.PLAINTEXT, "", 0)


def own_session() -> ClientSession:
    """A session for one request, with the rights of a node."""
    session = ClientSession(0, "", 0, _INSIDE, Owner(), _nothing)
    session.principal = CLUSTER_NODE
    return session


def _nothing() -> None:
    """The release of a session that has no connection."""
