"""Who a client is, for whatever decides by that.

Knows nothing of how it was shown.
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
"""Whoever has not shown who he is, by Kafka's name."""
