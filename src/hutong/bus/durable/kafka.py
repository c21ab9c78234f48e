"""The log behind durable addresses, reached by the Kafka wire: a hutong, in this process or elsewhere, or any Kafka.

Strategy: confluent-kafka does all talking; one idempotent producer for everything that is published, one consumer of
the client library for each consumer of a durable address.

Knows no machine; chooses the settings of the client library.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from hutong.bus.durable.addresses import checked_topic, shown, topic_of
from hutong.bus.durable.consume.driver import DurableConsumer, Handler
from hutong.bus.durable.failures import cause_of
from hutong.bus.durable.options import ConsumerOptions, DurableOptions, checked
from hutong.bus.durable.outcomes import PublishFailed, Stored
from hutong.bus.durable.publishing import Publisher, Settle
from hutong.bus.durable.records import KEY_HEADER, OutgoingRecord, encode_body, encode_headers, encode_key
from hutong.bus.durable.table import CompactedTable
from hutong.bus.options import DeliveryOptions
from hutong.bus.waiting.promise import Promise
from hutong.foundation.clock import Clock, SystemClock
from hutong.foundation.errors import Expired, HutongError
from hutong.runtime.contexts.contexts import Context

if TYPE_CHECKING:
    from hutong.bus.waiting.context_state import ContextState

PUBLISH_TIMEOUT_MS: Final = 30_000
PUBLISH_IN_FLIGHT_MAX: Final = 10_000
RECORD_BYTES_MAX: Final = 1_048_588  # Kafka's own default for max.message.bytes
DEAD_LETTER_BYTES_MAX: Final = 2 * RECORD_BYTES_MAX  # the record must fit together with the headers of its failure
CLOSE_S_MAX: Final = 10.0
REQUEST_S_MAX: Final = 15.0
SESSION_TIMEOUT_MS: Final = 10_000  # until the group notices that a process is gone; no handler delays a heartbeat

Settings = Mapping[str, str | int | float | bool]

_log = logging.getLogger("hutong.bus.durable")


class KafkaLog:
    """`KafkaLog("host:9092")`, for `EventBus(runtime, log=...)`.

    `settings` are librdkafka's own, for TLS and SASL say, `consumer_settings` those that only consumers have; both
    win over what is set here. `publish_in_flight_max` bounds what is published and not yet acknowledged;
    `publish_timeout_ms` is when the client library gives a record up. Raises UsageError where a setting is refused,
    at first use.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        settings: Settings | None = None,
        consumer_settings: Settings | None = None,
        publish_in_flight_max: int = PUBLISH_IN_FLIGHT_MAX,
        publish_timeout_ms: int = PUBLISH_TIMEOUT_MS,
        clock: Clock | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self.clock = clock or SystemClock()
        self._shared: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "client.id": "hutong-bus",
            "log_level": 2,  # what matters reaches us as errors
            "topic.metadata.refresh.interval.ms": 10_000,  # topics and partitions that are made later are found
            "reconnect.backoff.max.ms": 1_000,
        }
        self._settings = dict(settings or {})
        self._consumer_settings = dict(consumer_settings or {})
        self._publisher_settings = {
            **self._shared,
            "enable.idempotence": True,
            "acks": "all",
            "partitioner": "murmur2_random",  # as Java's clients: the same key, the same partition
            "message.timeout.ms": publish_timeout_ms,
            "message.max.bytes": DEAD_LETTER_BYTES_MAX,
            **self._settings,
        }
        self.publisher = Publisher(self._publisher_settings, publish_in_flight_max)
        self._consumers: dict[Hashable, DurableConsumer] = {}
        self._made_topics: set[str] = set()
        self._admin: AdminClient | None = None

    def publish(self, state: "ContextState", address: str, body: object, options: DeliveryOptions) -> "Publication":
        """Store a message. Raises UsageError for what cannot be stored, LimitExceeded when too much is under way."""
        topic = topic_of(address)
        value, content_type = encode_body(body)
        headers = options.headers
        pairs = [] if headers is None else headers.items()
        key = None if headers is None else headers.get(KEY_HEADER)
        record = OutgoingRecord(topic, encode_key(key), value, encode_headers(pairs, content_type))
        publication = Publication(state, address)
        state.waits.queue(options.timeout_ms).park(publication)
        settle: Settle = publication.settle
        tracer = state.bus.tracer
        if tracer is not None and options.is_traced:
            record, settle = tracer.publishing(record, settle)
        try:
            self.publisher.publish(record, settle)
        except HutongError as error:
            publication.abandon()
            settle(error if isinstance(error, PublishFailed) else PublishFailed(str(error), code="REFUSED"))
            raise
        return publication

    def consumer(
        self,
        state: "ContextState",
        context: Context,
        address: str,
        handler: Handler | None,
        buffered_max: int,
        asked: DurableOptions,
    ) -> DurableConsumer:
        """Join a group. Raises UsageError for options that cannot be."""
        consumer = DurableConsumer(self, state, context, address, checked(address, asked, buffered_max))
        self._consumers[consumer] = consumer
        state.consumers[consumer] = None
        if handler is not None:
            consumer.handler(handler)
        return consumer

    def table(self, topic: str) -> CompactedTable:
        """A table kept in a compacted topic, to be opened. Raises UsageError for what is no name of a topic."""
        name = checked_topic(topic, f"The table {shown(topic)}")
        return CompactedTable(name, {**self._shared, **self._settings}, self._publisher_settings)

    def forget_consumer(self, consumer: Hashable) -> None:
        """The consumer has left its group: nothing of it is closed with the log any more."""
        self._consumers.pop(consumer, None)

    async def close(self) -> None:
        """Unregister every consumer in order, wait for what is being published, at most CLOSE_S_MAX."""
        for leaving in [consumer.unregister() for consumer in list(self._consumers.values())]:
            await leaving
        await asyncio.get_running_loop().run_in_executor(None, self.publisher.close, CLOSE_S_MAX)
        self._admin = None

    def publish_record(self, record: OutgoingRecord, settle: Settle) -> None:
        """Hand a record over; `settle` is called once with its outcome, on any thread. Raises HutongError."""
        self.publisher.publish(record, settle)

    def consumer_settings(self, options: ConsumerOptions) -> dict[str, Any]:
        return {
            **self._shared,
            "group.id": options.group,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",  # where retention has removed the offset: what is left, from its start
            "partition.assignment.strategy": "cooperative-sticky",  # who joins takes away only what it needs
            "allow.auto.create.topics": True,
            "isolation.level": "read_committed",
            **self._settings,
            **self._consumer_settings,
            **({"group.instance.id": options.member} if options.member else {}),
        }

    def make_dead_letter_topic(self, name: str, then: Callable[[], None]) -> None:
        """`then` is called on any thread. A refusal is logged; the publish that follows meets it again."""
        if name in self._made_topics:
            then()
            return
        if self._admin is None:  # kept: with it go the answers that are still awaited
            self._admin = AdminClient({**self._shared, **self._settings})
        config = {"retention.ms": "-1", "max.message.bytes": str(DEAD_LETTER_BYTES_MAX)}
        topic = NewTopic(name, num_partitions=1, replication_factor=-1, config=config)
        making: Future[None] = self._admin.create_topics([topic], request_timeout=REQUEST_S_MAX)[name]

        def made(future: "Future[None]") -> None:
            error = future.exception()
            is_there = isinstance(error, KafkaException) and cause_of(error).code() == KafkaError.TOPIC_ALREADY_EXISTS
            if error is None or is_there:
                self._made_topics.add(name)
            else:
                _log.warning("the dead-letter topic %s could not be made: %s", name, error)
            then()

        making.add_done_callback(made)


class Publication(Promise[Stored]):
    """A message on its way into the log: `await` it, or `.then(handler)`, or `.result()` in a plain thread.

    Gives where it is stored, or raises PublishFailed.
    """

    __slots__ = ("_address",)

    def __init__(self, state: "ContextState", address: str) -> None:
        super().__init__(state.executor)
        self._address = address

    def settle(self, outcome: Stored | PublishFailed) -> None:
        """From any thread."""
        _ = self.resume(outcome) if isinstance(outcome, Stored) else self.fail(outcome)

    def end(self, outcome: Stored | HutongError) -> None:
        if isinstance(outcome, Expired):
            outcome = PublishFailed(
                f"{self._address}: no acknowledgement came in time", code="TIMED_OUT", is_outcome_unknown=True
            )
        if isinstance(outcome, HutongError) and not self.is_awaited:
            _log.warning("published without waiting for it, and not known to be stored: %s", outcome)
        super().end(outcome)
