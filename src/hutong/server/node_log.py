"""The node's own broker as the log in which durable addresses of its bus are kept.

Strategy: over the wire like any other client, so that an address is the same topic to everybody. Knows no room of the
broker.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hutong.bus.desk import Desk
    from hutong.bus.durable.driver import DurableConsumer, Handler
    from hutong.bus.durable.kafka import KafkaLog
    from hutong.bus.durable.options import DurableOptions
    from hutong.bus.durable.port import Stored
    from hutong.bus.durable.table import CompactedTable
    from hutong.bus.options import DeliveryOptions
    from hutong.bus.promise import Promise
    from hutong.runtime.contexts import Context


class NodeLog:
    """The Kafka client is imported when the first durable address is used: most buses have none."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._log: KafkaLog | None = None

    def publish(self, desk: "Desk", address: str, body: object, options: "DeliveryOptions") -> "Promise[Stored]":
        return self._kafka_log().publish(desk, address, body, options)

    def consumer(
        self,
        desk: "Desk",
        context: "Context",
        address: str,
        handler: "Handler | None",
        buffered_max: int,
        asked: "DurableOptions",
    ) -> "DurableConsumer":
        return self._kafka_log().consumer(desk, context, address, handler, buffered_max, asked)

    def table(self, topic: str) -> "CompactedTable":
        return self._kafka_log().table(topic)

    async def close(self) -> None:
        if self._log is not None:
            await self._log.close()

    def _kafka_log(self) -> "KafkaLog":
        if self._log is None:
            from hutong.bus.durable.kafka import KafkaLog

            self._log = KafkaLog(self._bootstrap)
        return self._log
