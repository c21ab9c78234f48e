"""The port to the node that serves the console: what no Kafka client can ask it.

`server/console` implements it. Knows nothing of the node.
"""

from typing import Any, Protocol


class NodeFacts(Protocol):
    """The node itself."""

    def listeners(self) -> dict[str, str]:
        """The addresses where it listens, by kind."""
        ...

    def health_reasons(self) -> list[str]:
        """Sentences on what keeps it from being ready; none where it is."""
        ...

    def settings(self) -> list[dict[str, Any]]:
        """Each setting: `name`, `value` (none of a secret), `default`, `meaning`."""
        ...

    async def metrics(self) -> str:
        """All its metrics in Prometheus' text format."""
        ...
