"""The port to the other replicas: messages to a node, in order, over the one connection with it.

Knows nothing of connections: `cluster/peers` implements it, and tests do.
"""

from typing import Protocol

from hutong.replication.replica_messages import ReplicaMessage


class ReplicaLinks(Protocol):
    """Links to other nodes. A link that ends loses what is on its way; a new one begins with nothing."""

    def is_open(self, node: int) -> bool: ...

    def send(self, node: int, message: ReplicaMessage) -> None:
        """Send to the node; nothing happens while there is no link, and never an answer within the call."""
        ...
