"""The listeners for Kafka clients: the security protocol of each, and its advertised address.

Strategy: answers name a node by the address of the listener that the client came by, for it may
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
    """`host` and `port` are the advertised address."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int
