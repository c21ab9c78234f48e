"""A transactional producer (KIP-98): some batches to several partitions, then a commit or an abort."""

import asyncio

from hutong.testing.simulation.clients.client import ClientContext
from hutong.testing.simulation.clients.transactions.session import TransactionFailed, TransactionSession
from hutong.testing.simulation.plan.clients import PlannedTransactionalProducer


class SimTransactionalProducer(TransactionSession):
    """Writes values that nobody asked for, until it is stopped."""

    def __init__(self, context: ClientContext, plan: PlannedTransactionalProducer) -> None:
        super().__init__(context, plan)
        self._topic = plan.topic
        self._partitions = plan.partitions
        self._values_total = 0

    async def run(self) -> None:
        await self.initialise()
        while not self.is_stopping:
            await self._transact()
            await self.rest(self._plan.pause_ms)

    async def _transact(self) -> None:
        is_commit = self.random.random() < 0.7
        self.begin()
        try:
            for _ in range(self.random.choice((1, 1, 2, 4))):
                await self._send_some()
            # Longer than some timeouts: then the coordinator aborts it.
            if self.random.random() < 0.1:
                await asyncio.sleep(self._plan.timeout_ms / 1_000 * 2 * self.random.random())
        except TransactionFailed:
            is_commit = False
        await self.end(is_commit=is_commit)

    async def _send_some(self) -> None:
        count = self.random.choice((1, 1, 3))
        first, self._values_total = self._values_total + 1, self._values_total + count
        values = [b"%s/%d" % (self.name.encode(), number) for number in range(first, first + count)]
        await self.send((self._topic, self.random.randrange(self._partitions)), values, [None] * count)
