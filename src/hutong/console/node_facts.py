"""The port to the node that serves the console: what no Kafka client can ask it.

`server/console` implements it. Knows nothing of the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hutong.bus.bus import EventBus
    from hutong.bus.clustered.figures import OtherNodeFigures
    from hutong.console.groups.others import OtherGroup
    from hutong.console.records.batches import SeenBatches
    from hutong.console.records.decoding.shown import ValueSchema
    from hutong.console.schemas.registry_api import RegistryApi
    from hutong.rpc.rpc import Rpc


ToldSpans: TypeAlias = "tuple[list[dict[str, Any]], bool]"


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

    def bus(self) -> EventBus | None:
        """Its event bus; None where it has none."""
        ...

    def bus_nodes(self) -> Sequence[OtherNodeFigures]:
        """The other nodes of the bus."""
        ...

    def rpc(self) -> Rpc | None:
        """Its services, and the way to call some; None where nothing has used services."""
        ...

    def refusals(self) -> list[dict[str, Any]]:
        """Rights that clients wanted and did not get, latest first; each with a count."""
        ...

    def number(self) -> int:
        """Its number in its cluster."""
        ...

    def other_nodes(self) -> list[int]:
        """The numbers of the other nodes of its cluster; none of a node alone."""
        ...

    async def other_groups(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Share groups and streams groups of its cluster, with `name`, `state`, `type` and `is_simple`.

        Then a sentence for each node that has not told. They are those that a user sees who may describe the cluster.
        """
        ...

    async def other_group(self, name: str) -> OtherGroup | None:
        """One of these groups, whole, from the node that keeps it; None where there is none.

        Raises HutongError, which names that node, where it does not tell.
        """
        ...

    def spans(self, traces: Sequence[str]) -> ToldSpans | None:
        """The spans of these traces, the earliest first, and True where there are more; None where nothing is traced.

        A trace is named by its id in hex.
        """
        ...

    async def spans_of(self, node: int, traces: Sequence[str]) -> ToldSpans | None:
        """The same of another node: up to 20 traces. Raises HutongError where it does not tell."""
        ...

    def partition_bytes(self) -> dict[tuple[str, int], int]:
        """Bytes that this node holds of each partition, by topic and number."""
        ...

    async def batches(self, topic: str, offsets: Mapping[int, Sequence[int]]) -> SeenBatches:
        """The batches that hold these offsets of partitions, from its own journals. For users that have read them."""
        ...

    async def schemas(self, ids: Collection[int]) -> Mapping[int, ValueSchema] | None:
        """The schemas of its registry that have these ids; None where it has no registry."""
        ...

    def registry(self) -> RegistryApi | None:
        """Its schema registry; None where it has none."""
        ...

    async def metrics(self, *, is_full: bool = False) -> str:
        """Its metrics in Prometheus' text format. A brief page lacks every second bound of histograms."""
        ...
