"""What the event bus knows of a log: the door through which durable addresses are reached.

The bus itself imports no Kafka client; whoever makes a bus gives it a log (`EventBus(runtime,
log=KafkaLog("host:9092"))`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hutong.foundation.errors import HutongError

if TYPE_CHECKING:
    from hutong.bus.desk import Desk
    from hutong.bus.durable.driver import DurableConsumer, Handler
    from hutong.bus.durable.options import DurableOptions
    from hutong.bus.durable.table import CompactedTable
    from hutong.bus.options import DeliveryOptions
    from hutong.bus.promise import Promise
    from hutong.runtime.contexts import Context


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a published message stands: it is as durable now as its topic promises (acks=all)."""

    topic: str
    partition: int
    offset: int


class PublishFailed(HutongError):
    """A message is not known to be stored.

    `code` names the cause as Kafka does. With `is_outcome_unknown` it may be stored all the same (the acknowledgement
    did not come in time): publishing it again may store it twice. `is_hopeless`: trying again does not help.
    """

    def __init__(self, message: str, *, code: str, is_outcome_unknown: bool = False, is_hopeless: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.is_outcome_unknown = is_outcome_unknown
        self.is_hopeless = is_hopeless


class ConsumerStopped(HutongError):
    """A consumer ended by itself, because going on would lose a message. What it had not handled stays in the log."""


class DurableLog(Protocol):
    """What a bus asks of its log."""

    def publish(self, desk: "Desk", address: str, body: object, options: "DeliveryOptions") -> "Promise[Stored]":
        """Store a message; the promise fails with PublishFailed. Any thread may call.

        Raises UsageError for what cannot be stored, LimitExceeded when too much is under way.
        """
        ...

    def consumer(
        self,
        desk: "Desk",
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
