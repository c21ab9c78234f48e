"""Principals: the identities of clients.

Knows nothing of authentication.
"""

from dataclasses import dataclass
from typing import Final

USER: Final = "User"


@dataclass(frozen=True, slots=True)
class Principal:
    """A kind and a name; Kafka writes both with a colon between (KafkaPrincipal)."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of a client without authentication, as Kafka names it."""

CLUSTER_NODE: Final = Principal("Node", "cluster")
"""The principal of requests that the nodes of a cluster make themselves. No client can have it: its kind is another."""
