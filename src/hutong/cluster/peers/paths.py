"""The paths between this node and the others, as a double for tests closes and opens them.

Strategy: one object by constructor. A network without one links with every node that answers, and pays nothing. A path
that is closed ends its link at once, and lets nobody through until it is open again. The process behind it does not
count as gone.

Knows nothing of links.
"""

from collections.abc import Callable
from typing import Protocol


class PeerPaths(Protocol):
    """Its methods are called on the network's loop."""

    def is_open(self, node: int) -> bool:
        """Return True where a link with the node may begin."""
        ...

    def watch(self, cut: Callable[[int], None]) -> None:
        """Call `cut` with a node whenever the path to it closes. Called once, by the network's constructor."""
        ...
