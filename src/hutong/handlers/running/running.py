"""The composition of an app at work: one consumer for each topic handler, one log for results, one bus.

Strategy: the consumers begin last and end first, because their handlers use the rest.

Knows no machine.
"""

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import AsyncExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hutong.bus.durable.kafka import KafkaLog
from hutong.bus.durable.outcomes import PublishFailed, Stored
from hutong.foundation.errors import UsageError
from hutong.handlers.consume.driver import HandlingHalted, TopicConsumer
from hutong.handlers.consume.outputs import result_record
from hutong.handlers.consume.taker import RecordTaker
from hutong.handlers.consume.transactor import Transactor
from hutong.handlers.declare.options import Output, TopicHandler
from hutong.handlers.running.addresses import register

if TYPE_CHECKING:
    from hutong.bus.bus import EventBus
    from hutong.handlers.app import App

RESULTS_UNDER_WAY_MAX: Final = 100_000
SESSION_TIMEOUT_MS: Final = 10_000  # until the group notices that a process is gone; no handler delays a heartbeat
FETCHED_AHEAD_KIBIBYTES_MAX: Final = 16 << 10  # of each consumer; the library's default is 64 MiB


class RunningApp:
    """An app on the running loop, for the length of an `async with` block. `consumers` are its topic handlers' own."""

    def __init__(self, app: "App", bootstrap: str, bus: "EventBus | None") -> None:
        self.consumers: list[TopicConsumer] = []
        self._app = app
        self._bootstrap = bootstrap
        self._bus = bus
        self._loop = asyncio.get_running_loop()
        self._halted: asyncio.Future[HandlingHalted] = self._loop.create_future()
        self._log = KafkaLog(
            bootstrap, settings=app.settings, publish_in_flight_max=RESULTS_UNDER_WAY_MAX, clock=app.clock
        )
        self._exit = AsyncExitStack()

    @property
    def bus(self) -> "EventBus":
        if self._bus is None:
            raise UsageError("The app has no address, so it has no bus: give running() one.")
        return self._bus

    async def __aenter__(self) -> "RunningApp":
        async with AsyncExitStack() as exit_stack:
            exit_stack.push_async_callback(self._log.close)
            if self._app.address_handlers:
                await self._open_addresses(exit_stack)
            self.consumers = [self._consumer(handler) for handler in self._app.topic_handlers]
            for consumer in self.consumers:
                consumer.start()
            exit_stack.push_async_callback(self._stop_consumers)
            self._exit = exit_stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exit.aclose()

    async def until_halted_or(self, stopped: asyncio.Event) -> None:
        """Return when the event is set. Raises HandlingHalted when a consumer stops by itself first."""
        waiting = self._loop.create_task(stopped.wait())
        self._halted.add_done_callback(lambda _: waiting.cancel())
        try:
            await waiting
        except asyncio.CancelledError:
            if not self._halted.done():
                raise
        finally:
            waiting.cancel()
        if self._halted.done():
            raise self._halted.result()

    async def publish(
        self, topic: str, value: Any, key: str | bytes | None, headers: Sequence[tuple[str, str | bytes]]
    ) -> Stored:
        outcome: asyncio.Future[Stored | PublishFailed] = self._loop.create_future()

        def set_outcome(stored: Stored | PublishFailed) -> None:
            if not outcome.done():  # its waiter may be cancelled
                outcome.set_result(stored)

        def settle(stored: Stored | PublishFailed) -> None:
            self._loop.call_soon_threadsafe(set_outcome, stored)

        tracing = self._app.tracing
        with nullcontext(headers) if tracing is None else tracing.sending(topic, headers) as sent:
            pairs = [(name, text) for name, text in sent if text is not None]
            self._log.publish_record(result_record(topic, Output(value, key, pairs), None), settle)
            stored = await outcome
        if isinstance(stored, PublishFailed):
            raise stored
        return stored

    async def _open_addresses(self, exit_stack: AsyncExitStack) -> None:
        if self._bus is None:
            from hutong.server.embedded import Node

            options = {"log": f"kafka://{self._bootstrap}", "tracing": self._app.tracing, **self._app.node_options}
            self._bus = (await exit_stack.enter_async_context(Node(**options))).bus
        for handler in self._app.address_handlers:
            consumer = register(self._bus, handler)
            exit_stack.callback(consumer.unregister)

    async def _stop_consumers(self) -> None:
        # Together: each may wait for its handlers as long as its grace.
        await asyncio.gather(*(consumer.stop() for consumer in self.consumers))

    def _consumer(self, handler: TopicHandler) -> TopicConsumer:
        app = self._app
        taker, spans = partial(self._taker, handler), None
        if app.tracing is not None:
            from hutong.handlers.consume.spans import HandlerSpans  # the extra `tracing`: an app without it needs none

            spans = HandlerSpans(app.tracing, handler)
        return TopicConsumer(handler, self._log, app.clock, app.chance, taker, self._halt, spans)

    def _halt(self, reason: HandlingHalted) -> None:
        if not self._halted.done():
            self._halted.set_result(reason)

    def _taker(self, handler: TopicHandler, consumer: TopicConsumer) -> RecordTaker:
        transactor = None
        if handler.exactly_once:
            producer_settings = {**self._shared(), "partitioner": "murmur2_random", **self._app.settings}
            transactor = Transactor(producer_settings, f"{handler.group}-{secrets.token_hex(8)}")
        settings = self._consumer_settings(handler)
        return RecordTaker(self._loop, consumer, settings, handler.topics, handler.grace, transactor)

    def _shared(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._bootstrap,
            "client.id": "hutong-handlers",
            "log_level": 2,  # what matters reaches us as errors
            "topic.metadata.refresh.interval.ms": 10_000,  # topics that are made later are found
            "reconnect.backoff.max.ms": 1_000,
        }

    def _consumer_settings(self, handler: TopicHandler) -> dict[str, Any]:
        return {
            **self._shared(),
            "group.id": handler.group,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "latest" if handler.from_latest else "earliest",
            "partition.assignment.strategy": "cooperative-sticky",  # a member that joins takes only what it needs
            "allow.auto.create.topics": True,
            # With it the broker also holds committed offsets back while a transaction of them is open (KIP-447).
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": FETCHED_AHEAD_KIBIBYTES_MAX,
            **self._app.settings,
            **self._app.consumer_settings,
        }
