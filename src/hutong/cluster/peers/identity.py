"""The name of one life of a node, as it shows itself to the others."""

from dataclasses import dataclass
from typing import Final

PROTOCOL_VERSION: Final = 1
"""Of the frames between nodes. Nodes with different ones do not link."""


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """`incarnation` is drawn once for each process; `version` is that of the program, for people."""

    cluster_id: str
    node: int
    incarnation: int
    version: str = ""
    protocol: int = PROTOCOL_VERSION
