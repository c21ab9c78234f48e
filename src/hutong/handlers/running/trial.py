"""`app.test()`: the app's handlers at work on a broker in the test's process.

Strategy: the node of `hutong.testing`, so what a test finds is what a broker would do. Waits are for events: a handler
is done when its group has committed all that is in its topics.

Knows no pytest.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any, Final

from hutong.foundation.errors import UsageError
from hutong.handlers.consume.outputs import result_record
from hutong.handlers.declare.options import Output

if TYPE_CHECKING:
    from hutong.bus.bus import EventBus
    from hutong.handlers.app import App
    from hutong.testing import EmbeddedNode, Record

HANDLED_S_MAX: Final = 10.0
# The client library waits so long for more before it answers a fetch, and between heartbeats: short, for short tests.
HASTY: Final = {"fetch.wait.max.ms": 20, "heartbeat.interval.ms": 100}


class Trial:
    """The handlers of an app at work, in a `with` or `async with` block.

    `node` is one of `hutong.testing` that exists; without, each trial has its own. `partitions` are those of each
    topic.
    """

    def __init__(self, app: "App", *, node: "EmbeddedNode | None" = None, partitions: int = 1) -> None:
        self._app = app
        self._given = node
        self._partitions = partitions
        self._exit = ExitStack()
        self._node: EmbeddedNode | None = None
        self._bus: EventBus | None = None
        self._started = AsyncExitStack()

    @property
    def node(self) -> "EmbeddedNode":
        """The node: its topics, records, groups and fault switches (docs/testing.md)."""
        if self._node is None:
            raise UsageError("The test's broker does not run: write `with app.test() as test:`.")
        return self._node

    @property
    def bus(self) -> "EventBus":
        """The event bus of the app's addresses."""
        return self.node.bus

    def produce(
        self, topic: str, *values: Any, key: str | bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Put messages into a topic: models, bytes, text or JSON."""
        for value in values:
            record = result_record(topic, Output(value, key, [*(headers or {}).items()]), None)
            self.node.produce(topic, record.value, key=record.key, headers=record.headers)

    def handled(self, *topics: str, timeout: float = HANDLED_S_MAX) -> None:
        """Wait until everything in these topics, or in all of the app's, is handled or given up. Raises WaitFailed."""
        __tracebackhide__ = True
        for group, topic in self._groups(topics):
            self.node.wait_for_lag(group, topic, timeout=timeout)

    async def wait_handled(self, *topics: str) -> None:
        """As `handled`, on an event loop."""
        __tracebackhide__ = True
        for group, topic in self._groups(topics):
            await self.node.aio.wait_for_lag(group, topic, timeout=HANDLED_S_MAX)

    def records(self, topic: str, count: int | None = None) -> "list[Record]":
        """All records of a topic. With a count it waits until there are as many. Raises WaitFailed."""
        __tracebackhide__ = True
        return self.node.records(topic, count)

    def request(self, address: str, body: Any = None) -> Any:
        """The reply of a handler of an address, as its body. Raises ReplyError."""
        from hutong.handlers.declare.models import to_body

        return self.node.bus.request(address, to_body(body)).result(HANDLED_S_MAX).body

    def __enter__(self) -> "Trial":
        with ExitStack() as exit_stack:
            node = self._given or exit_stack.enter_context(self._new_node())
            self._node = node
            for topic in {topic for _, topic in self._groups(())} - set(node.topics()):
                node.create_topic(topic, partitions=self._partitions)
            bus = node.bus if self._app.address_handlers else None
            node.run(self._begin(bus))
            exit_stack.callback(lambda: node.run(self._started.aclose()))
            self._exit = exit_stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()
        self._node = None

    # In a thread, since a start waits for the node's own loop and would block the caller's.
    async def __aenter__(self) -> "Trial":
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.__exit__)

    async def _begin(self, bus: "EventBus | None") -> None:
        app = self._app
        before = app.consumer_settings
        app.consumer_settings = {**HASTY, **before}
        try:
            await self._started.enter_async_context(app.running(bootstrap=self.node.bootstrap, bus=bus))
        finally:
            app.consumer_settings = before

    def _new_node(self) -> "EmbeddedNode":
        from hutong.testing import EmbeddedNode

        return EmbeddedNode()

    def _groups(self, topics: Sequence[str]) -> list[tuple[str, str]]:
        known = [(handler.group, topic) for handler in self._app.topic_handlers for topic in handler.topics]
        unknown = set(topics) - {topic for _, topic in known}
        if unknown:
            raise UsageError(f"No handler of the app has the topic {min(unknown)}.")
        return [(group, topic) for group, topic in known if not topics or topic in topics]
