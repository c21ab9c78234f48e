"""`async for` over the messages of a durable consumer.

Strategy: the body of the loop is the handler. A message counts as handled when the loop asks for the next one.

Knows no partitions. All of it runs on the consumer's loop.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from hutong.bus.durable.consume.messages import RecordEntry
from hutong.bus.durable.message import DurableMessage
from hutong.bus.waiting.promise import Promise

if TYPE_CHECKING:
    from hutong.bus.durable.consume.driver import DurableConsumer


class DurableIteration:
    """The messages of a consumer, one for each step of an `async for`."""

    def __init__(self, consumer: "DurableConsumer") -> None:
        self._consumer = consumer
        self._given: tuple[RecordEntry, DurableMessage] | None = None  # to the loop's body
        self._arrived: deque[tuple[RecordEntry, DurableMessage]] = deque()
        self._waiting: Promise[None] | None = None

    @property
    def held(self) -> int:
        """Messages that wait for the loop to ask for the next one."""
        return len(self._arrived) + (self._given is not None)

    def __aiter__(self) -> "DurableIteration":
        return self

    async def __anext__(self) -> DurableMessage:
        consumer, given = self._consumer, self._given
        if given is not None:
            self._given = None
            consumer.post_outcome(given[0], given[1].failure, given[1])
        if not self._arrived:
            self._waiting = consumer.promise()
            consumer.fetch(1)
            if consumer.is_over:
                self.end()
            try:
                await self._waiting
            except asyncio.CancelledError:
                consumer.pause()
                raise
        if not self._arrived:
            if consumer.failure is not None:
                raise consumer.failure
            raise StopAsyncIteration
        self._given = self._arrived.popleft()
        return self._given[1]

    def receive(self, entry: RecordEntry, message: DurableMessage) -> None:
        """Instead of a handler."""
        self._arrived.append((entry, message))
        self.end()

    def end(self) -> None:
        """Wake the waiters, which check again."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.resume(None)
