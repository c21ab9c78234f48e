"""The helpers of an embedded node or cluster for tests that run on an event loop: the same names, to be awaited.

Strategy: the work is done on the node's loop and only its result crosses to the caller's, which turns meanwhile, so
that clients under test, which live there, can do what is waited for.

Knows nothing of what the helpers do. For asyncio's loops (also below anyio); from trio, call the blocking helpers by
`trio.to_thread.run_sync`.
"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import Refused
from hutong.testing.faults.switches import Fault
from hutong.testing.node.helpers import TIMEOUT_S, Helpers
from hutong.testing.observe.observer import wait_for_hits
from hutong.testing.values import Group, Headers, Record, Standing, Text, WaitFailed

if TYPE_CHECKING:
    from hutong.testing.node.embedded import EmbeddedNode

T = TypeVar("T")


class AsyncWaits:
    """The helpers that a node and a cluster have in common."""

    def __init__(self, helpers: Helpers) -> None:
        self._helpers = helpers

    async def produce(
        self,
        topic: str,
        *values: Text,
        key: Text = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[Record]:
        __tracebackhide__ = True
        observer = self._helpers.observer
        return await self._run(
            observer.produce(topic, values, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms)
        )

    async def records(
        self, topic: str, count: int | None = None, *, partition: int | None = None, timeout: float = TIMEOUT_S
    ) -> list[Record]:
        __tracebackhide__ = True
        return await self._run(self._helpers.observer.records(topic, count, partition, int(timeout * 1000)))

    async def wait_for_group(
        self, name: str, members: int | None = None, state: str = "Stable", *, timeout: float = TIMEOUT_S
    ) -> Group:
        __tracebackhide__ = True
        return await self._run(self._helpers.observer.wait_for_group(name, members, state, int(timeout * 1000)))

    async def wait_for_lag(self, group: str, topic: str, lag: int = 0, *, timeout: float = TIMEOUT_S) -> list[Standing]:
        __tracebackhide__ = True
        return await self._run(self._helpers.observer.wait_for_lag(group, topic, lag, int(timeout * 1000)))

    async def wait_for_fault(self, fault: Fault, hits: int = 1, *, timeout: float = TIMEOUT_S) -> None:
        __tracebackhide__ = True
        return await self._run(wait_for_hits(lambda: fault.hits, hits, int(timeout * 1000), SystemClock()))

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        __tracebackhide__ = True
        try:
            return await asyncio.wrap_future(self._helpers.submit(work))
        except (WaitFailed, Refused) as error:
            raise error.with_traceback(None) from None


class AsyncHelpers(AsyncWaits):
    """`await node.aio.records(...)` is what `node.records(...)` is without a loop, and so for the others."""

    def __init__(self, node: "EmbeddedNode") -> None:
        super().__init__(node)
        self._node = node

    async def start(self) -> None:
        await self._run(self._node.begin())

    async def stop(self) -> None:
        await self._run(self._node.end())

    async def kill(self) -> None:
        await self._run(self._node.die())

    async def restart(self) -> None:
        await self._run(self._node.renew())
