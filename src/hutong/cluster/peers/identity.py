"""The name of one life of a node, as it shows itself to the others."""

from dataclasses import dataclass
from typing import Final

PROTOCOL_LOWEST: Final = 1
PROTOCOL_HIGHEST: Final = 1
"""The versions of the frames between nodes that this program speaks. Two nodes use the highest that both speak."""


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """`incarnation` is drawn once for each process; `version` is that of the program, for people."""

    cluster_id: str
    node: int
    incarnation: int
    version: str = ""
    protocol_highest: int = PROTOCOL_HIGHEST
    protocol_lowest: int = PROTOCOL_LOWEST

    def shared_protocol(self, other: "PeerIdentity") -> int | None:
        """The highest version of the protocol that both speak; None without one."""
        highest = min(self.protocol_highest, other.protocol_highest)
        return highest if highest >= max(self.protocol_lowest, other.protocol_lowest) else None

    @property
    def protocols(self) -> str:
        """The versions of the protocol, for people."""
        lowest, highest = self.protocol_lowest, self.protocol_highest
        spoken = str(highest) if lowest == highest else f"{lowest} to {highest}"
        return f"{spoken} (Hutong {self.version!r})"
