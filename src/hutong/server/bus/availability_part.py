"""High availability as a part of a node: deployed behind its place in the cluster, so it ends before that.

Decides nothing: `bus/clustered/availability` does.
"""

from random import Random, SystemRandom
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import UsageError
from hutong.runtime.verticles import Verticle
from hutong.server.composition import ComposedNode, NodePart

if TYPE_CHECKING:
    from hutong.bus.clustered.availability.driver import Availability
    from hutong.bus.shared.port import EntryStore
    from hutong.server.bus.cluster_part import BusClusterPart

GROUP_CHARACTERS_MAX: Final = 100


class AvailabilityVerticle(Verticle):
    """Deploys verticles with `ha`, those of the program and those of dead nodes, as its children."""

    availability: "Availability"

    def __init__(self, node: str, group: str, quorum: int, entries: "EntryStore", random: Random) -> None:
        self._node = node
        self._group = group
        self._quorum = quorum
        self._entries = entries
        self._random = random

    async def start(self) -> None:
        from hutong.bus.clustered.availability.driver import Availability

        self.availability = Availability(
            self._node,
            self._group,
            self._quorum,
            runtime=self.runtime,
            context=self.context,
            entries=self._entries,
            random=self._random,
        )
        self.availability.start()
        self.runtime.availability = self.availability

    async def stop(self) -> None:
        self.runtime.availability = None
        await self.availability.close()


class AvailabilityPart(NodePart):
    """Lets the nodes of a group take over each other's verticles, while there are `quorum` of them."""

    def __init__(self, cluster: "BusClusterPart", group: str, quorum: int, random: Random | None = None) -> None:
        """Raises UsageError for a group without a name, and for a quorum below 1."""
        if not group or len(group) > GROUP_CHARACTERS_MAX:
            raise UsageError(f"ha_group is {group[:20]!r}: a name has 1 to {GROUP_CHARACTERS_MAX} characters.")
        if quorum < 1:
            raise UsageError(f"ha_quorum is {quorum}: a group needs at least the node itself, 1.")
        self._cluster = cluster
        self._group = group
        self._quorum = quorum
        self._random = random or SystemRandom()
        self._verticle: AvailabilityVerticle | None = None

    async def open(self, node: ComposedNode) -> None:
        own, entries = node.addresses.cluster_node, self._cluster.entries
        assert own is not None, "the node has joined the cluster before"
        self._verticle = AvailabilityVerticle(own, self._group, self._quorum, entries, self._random)
        await node.deploy("high availability", self._verticle)
        availability = self._verticle.availability
        node.availability = lambda: availability.figures

    def closing(self) -> None:
        # None where its deployment has failed.
        if self._verticle is not None and hasattr(self._verticle, "availability"):
            self._verticle.availability.leave()
