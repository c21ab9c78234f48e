"""Answers to producers' records: whether the schemas that they name are registered, from what is in memory.

Decides nothing.
"""

import asyncio

from hutong.broker.topics.schema_demands import SchemaDemand
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Continuation
from hutong.registry.names import DEFAULT_CONTEXT
from hutong.registry.store import SchemaStore


class RegisteredSchemas:
    """Implements `KnownSchemas`. As Confluent's brokers it looks in the default context alone."""

    def __init__(self, store: SchemaStore) -> None:
        self._store = store
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_current(self) -> bool:
        return self._store.is_current

    def is_registered(self, topic: str, demand: SchemaDemand, schema_id: int) -> bool:
        machine, subject = self._store.machine, demand.subject(topic)
        if subject is not None:
            return machine.has(subject, schema_id)
        return machine.has_any(DEFAULT_CONTEXT, demand.prefix(topic), schema_id)

    def refresh(self, then: Continuation[None]) -> None:
        task = asyncio.get_running_loop().create_task(self._refresh(then))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _refresh(self, then: Continuation[None]) -> None:
        try:
            await self._store.catch_up()
            await self._store.refreshed()
        except HutongError as error:
            then(error)
        else:
            then(None)
