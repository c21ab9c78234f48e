"""Hutong: a messaging backbone in Python. `hutong.Node` is a node inside a program."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hutong.server.embedded import Node

__all__ = ["Node"]


def __getattr__(name: str) -> object:
    """Nothing is imported before it is asked for: commands and Spark's workers start without a node."""
    if name == "Node":
        from hutong.server.embedded import Node

        return Node
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
