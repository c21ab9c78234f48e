"""The door of an acceptor: who is let in, and what stands between the connections and their handler.

Strategy: one object by constructor, asked once for each connection and once for the handler; an acceptor without one
lets everybody in within its limits and pays nothing. Doubles for tests break a network here, with the same connections,
limits and order of answers as in earnest.

Knows nothing of what a door may be good for.
"""

from collections.abc import Callable
from typing import Protocol

from hutong.reactor.handler import Handler, Peer

Cut = Callable[[Callable[[Peer], bool]], int]
"""Ends, at once and with what is unsent, the connections of all peers for which the condition holds; how many."""


class Door(Protocol):
    """Its methods are called on the acceptor's loop."""

    def admits(self, address: str) -> bool:
        """Whether a connection from there is let in; one that is not is reset."""
        ...

    def before(self, handler: Handler, cut: Cut) -> Handler:
        """What the connections are given as their handler: called once, by the acceptor's constructor."""
        ...
