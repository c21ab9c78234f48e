"""The log in which durable addresses of a node's bus are kept: its own broker, or any other that speaks Kafka's wire.

Strategy: over the wire like any other client, also to its own broker, so that an address is the same topic to
everybody. Knows nothing of the broker.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hutong.bus.durable.consume.driver import DurableConsumer, Handler
    from hutong.bus.durable.kafka import KafkaLog
    from hutong.bus.durable.options import DurableOptions
    from hutong.bus.durable.outcomes import Stored
    from hutong.bus.durable.table import CompactedTable
    from hutong.bus.options import DeliveryOptions
    from hutong.bus.waiting.context_state import ContextState
    from hutong.bus.waiting.promise import Promise
    from hutong.runtime.contexts.contexts import Context

_PLACE: Final = r"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}"
_URL: Final = re.compile(rf"kafka://({_PLACE}(?:,{_PLACE})*)/?", re.ASCII)


def bootstrap_of(log: str, exit_code: int = ExitCode.USAGE) -> str:
    """The bootstrap servers in `kafka://HOST:PORT[,HOST:PORT...]`. Raises UsageError for anything else."""
    found = _URL.fullmatch(log)
    if found is None:
        raise UsageError(f"{log[:200]!r} names no brokers; write kafka://HOST:PORT[,HOST:PORT...].", exit_code)
    return found[1]


class NodeLog:
    """The Kafka client is imported when the first durable address is used: most buses have none."""

    def __init__(self, bootstrap: str, properties: Mapping[str, str] | None = None) -> None:
        """`properties` are librdkafka's, for TLS and SASL."""
        self._bootstrap = bootstrap
        self._properties = properties
        self._log: KafkaLog | None = None

    def publish(
        self, state: "ContextState", address: str, body: object, options: "DeliveryOptions"
    ) -> "Promise[Stored]":
        return self._kafka_log().publish(state, address, body, options)

    def consumer(
        self,
        state: "ContextState",
        context: "Context",
        address: str,
        handler: "Handler | None",
        buffered_max: int,
        asked: "DurableOptions",
    ) -> "DurableConsumer":
        return self._kafka_log().consumer(state, context, address, handler, buffered_max, asked)

    def table(self, topic: str) -> "CompactedTable":
        return self._kafka_log().table(topic)

    async def close(self) -> None:
        if self._log is not None:
            await self._log.close()

    def _kafka_log(self) -> "KafkaLog":
        if self._log is None:
            try:
                from hutong.bus.durable.kafka import KafkaLog
            except ModuleNotFoundError as error:
                if error.name != "confluent_kafka":
                    raise
                raise UsageError(
                    "Durable addresses need confluent-kafka, which is not installed: pip install 'hutong[durable]'.",
                    ExitCode.UNAVAILABLE,
                ) from None

            self._log = KafkaLog(self._bootstrap, settings=self._properties)
        return self._log
