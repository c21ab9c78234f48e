"""The port to requests that the client library cannot send: reassignments of Kafka's, and commands of Hutong's own.

The command line implements it, with the client of the pipelines. Knows no client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager


class OperatorConnection(Protocol):
    """A way to all brokers, as one user. Each call blocks, and raises PeerError: Refused by a broker, or no answer."""

    def ask(self, request: Any) -> Any:
        """The answer of any broker, in version 0."""
        ...

    def ask_at(self, host: str, port: int, request: Any, version: int) -> Any:
        """The answer of the broker at this address."""
        ...

    def asks_hutong(self) -> bool:
        """True for a cluster of Hutong: any other one closes the connection at a command of Hutong's."""
        ...


class OperatorRequests(Protocol):
    """Opens connections by the properties of a user's clients (librdkafka's)."""

    def opened(self, properties: Mapping[str, Any]) -> AbstractContextManager[OperatorConnection]:
        """Raises Refused for properties that this client does not know."""
        ...
