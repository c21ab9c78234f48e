"""The log of an event bus: the interface through which durable addresses are reached.

The bus itself imports no Kafka client; the maker of a bus gives it a log (`EventBus(runtime,
log=KafkaLog("host:9092"))`).
"""

from typing import TYPE_CHECKING, Protocol

from hutong.foundation.errors import UsageError

if TYPE_CHECKING:
    from hutong.bus.durable.consume.driver import DurableConsumer, Handler
    from hutong.bus.durable.options import DurableOptions
    from hutong.bus.durable.outcomes import Stored
    from hutong.bus.durable.table import CompactedTable
    from hutong.bus.options import DeliveryOptions
    from hutong.bus.waiting.context_state import ContextState
    from hutong.bus.waiting.promise import Promise
    from hutong.runtime.contexts.contexts import Context


class DurableLog(Protocol):
    """The services of a log that its bus uses."""

    def publish(
        self, state: "ContextState", address: str, body: object, options: "DeliveryOptions"
    ) -> "Promise[Stored]":
        """Store a message; the promise fails with PublishFailed. Any thread may call.

        Raises UsageError for what cannot be stored, LimitExceeded when too much is under way.
        """
        ...

    def consumer(
        self,
        state: "ContextState",
        context: "Context",
        address: str,
        handler: "Handler | None",
        buffered_max: int,
        asked: "DurableOptions",
    ) -> "DurableConsumer":
        """Join a group. Raises UsageError for options that cannot be."""
        ...

    def table(self, topic: str) -> "CompactedTable":
        """A table kept in a compacted topic, to be opened. Raises UsageError for what is no name of a topic."""
        ...

    async def close(self) -> None:
        """End consumers and publishing in order."""
        ...


def log_for(log: DurableLog | None, address: str) -> DurableLog:
    """The log of the bus. Raises UsageError for a bus without one."""
    if log is None:
        raise UsageError(
            f"{address!r} is durable, and this bus has no log: make the node with hutong.Node(kafka='HOST:PORT'), "
            "or the bus with EventBus(runtime, log=KafkaLog('HOST:PORT'))."
        )
    return log
