"""The doors for Kafka clients: by which protocol each is entered, and what those who came by it are told.

Strategy: a client that came by one listener is told that listener's address wherever an answer names a node, for it may
reach no other.

Knows nothing of sockets: `server/listeners/kafka_listeners.py` opens them.
"""

from dataclasses import dataclass
from enum import StrEnum


class SecurityProtocol(StrEnum):
    """Kafka's four: with or without TLS, with or without SASL."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self.value.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.value.startswith("SASL_")


@dataclass(frozen=True, slots=True)
class Listener:
    """`host` and `port` are what its clients are told to connect to."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int
