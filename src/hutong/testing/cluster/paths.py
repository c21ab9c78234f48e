"""The paths between a node of an embedded cluster and its peers: open, or closed for all of them.

Knows nothing of the other ways to reach a node.
"""

from collections.abc import Callable, Collection


class SwitchedPaths:
    """Implements `PeerPaths` for one life of a node, whose peers are `others`."""

    def __init__(self, others: Collection[int], *, are_open: bool) -> None:
        self._others = others
        self._are_open = are_open
        self._cut: Callable[[int], None] | None = None

    def is_open(self, _node: int) -> bool:
        return self._are_open

    def watch(self, cut: Callable[[int], None]) -> None:
        self._cut = cut

    def close(self) -> None:
        """End all links, and let none begin."""
        # First: an end of a link is news, and who hears it may dial at once.
        self._are_open = False
        if self._cut is not None:
            for node in self._others:
                self._cut(node)

    def open(self) -> None:
        """Let links begin again, which the nodes try now and then."""
        self._are_open = True
