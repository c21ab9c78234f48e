"""An administrator who moves single partitions of a topic between the nodes of a cluster, and changes his mind.

Strategy: each step is one request, also where the last one failed. Nothing that others were promised may change by it,
so all other checkers look for its faults. When it stops, what it has begun ends by itself.
"""

from hutong.testing.simulation.clients.client import ClientContext, KafkaClient
from hutong.testing.simulation.clients.connection import Disconnected
from hutong.testing.simulation.plan.clients import PlannedMover
from hutong.wire.kafka.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)


class SimMover(KafkaClient):
    """Moves one partition after the other."""

    def __init__(self, context: ClientContext, plan: PlannedMover) -> None:
        super().__init__(context)
        self._plan = plan

    async def run(self) -> None:
        while not self.is_stopping:
            await self.rest(self._plan.pause_ms)
            await self._step()

    async def _step(self) -> None:
        plan, random = self._plan, self.random
        replicas: list[int] | None = random.sample(range(1, plan.nodes + 1), min(plan.nodes, plan.replicas))
        if random.random() < plan.cancelled:
            replicas = None
        moved = ReassignableTopic(plan.topic, [ReassignablePartition(random.randrange(plan.partitions), replicas)])
        try:
            await self.ask(AlterPartitionReassignmentsRequest(topics=[moved]), 0)
            self.went_well()
        except Disconnected:
            await self.pause()
