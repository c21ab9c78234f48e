"""Gate of an acceptor: it admits or resets connections, and may wrap their handler.

Strategy: one object by constructor, asked once for each connection and once for the handler; an acceptor without one
lets everybody in within its limits and pays nothing. Doubles for tests break a network here, with the same connections,
limits and order of answers as in earnest.

Knows nothing of the purpose of a gate.
"""

from collections.abc import Callable
from typing import Protocol

from hutong.reactor.connections.handler import Handler, Peer

Cut = Callable[[Callable[[Peer], bool]], int]
"""Ends, at once and with what is unsent, the connections of all peers for which the condition holds; how many."""


class ConnectionGate(Protocol):
    """Its methods are called on the acceptor's loop."""

    def admits(self, address: str) -> bool:
        """True lets a connection from this address in; False resets it."""
        ...

    def before(self, handler: Handler, cut: Cut) -> Handler:
        """Wrap the handler of the connections: called once, by the acceptor's constructor."""
        ...
