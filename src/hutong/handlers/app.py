"""`App`: handlers of topics and of bus addresses, declared by decorators and run together.

Strategy: a decorator checks everything that can be checked without a broker, and leaves the function as it is. Nothing
is connected before the app runs. The client library is imported then, so a module with an app is imported fast.

Knows no broker: it is a client of one.
"""

import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from hutong.bus.durable.addresses import is_durable, shown
from hutong.bus.durable.consume.retry import Retry
from hutong.foundation.addresses import scheme_advice
from hutong.foundation.clock import Clock, SystemClock
from hutong.foundation.errors import ExitCode, UsageError
from hutong.handlers.declare.models import converter_of, decoder_of
from hutong.handlers.declare.options import (
    GRACE_S_DEFAULT,
    OWN_DEAD_LETTERS,
    RETRIES_DEFAULT,
    AddressHandler,
    TopicHandler,
    TopicOptions,
)
from hutong.handlers.declare.signature import read_signature

if TYPE_CHECKING:
    from hutong.bus.bus import EventBus
    from hutong.bus.durable.outcomes import Stored
    from hutong.handlers.running.running import RunningApp
    from hutong.handlers.running.trial import Trial
    from hutong.tracing import Tracing

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
BATCH_WAIT_S_DEFAULT: Final = 0.5


def checked_bootstrap(bootstrap: str) -> str:
    """The addresses of brokers. Raises UsageError for a URL, with which librdkafka would try for ever."""
    if not isinstance(bootstrap, str) or not bootstrap:
        raise UsageError("App needs the address of a broker, as in App('localhost:9092').")
    for address in bootstrap.split(","):
        # The library itself takes PLAINTEXT://HOST:PORT and its like.
        if address.strip().lower().startswith(("http://", "https://", "kafka://")):
            raise UsageError(f"{address!r} is no broker address; write it{scheme_advice(address)}.")
    return bootstrap


class App:
    """Handlers of one program: `app = App("localhost:9092")`, then `@app.topic(...)` and `@app.address(...)`.

    `settings` are librdkafka's own, for TLS and SASL say, `consumer_settings` those that only consumers have; both win
    over what is set here. `node` are the keywords of the `hutong.Node` whose bus has the addresses. `tracing` makes
    spans and figures of each call (`hutong.tracing.Tracing`). `title` and `version` are for the AsyncAPI document.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        title: str = "Handlers",
        version: str = "1.0.0",
        settings: Mapping[str, Any] | None = None,
        consumer_settings: Mapping[str, Any] | None = None,
        node: Mapping[str, Any] | None = None,
        tracing: "Tracing | None" = None,
        clock: Clock | None = None,
        chance: Callable[[], float] | None = None,
    ) -> None:
        self.bootstrap = checked_bootstrap(bootstrap)
        self.title = title
        self.version = version
        self.settings = dict(settings or {})
        self.consumer_settings = dict(consumer_settings or {})
        self.node_options = dict(node or {})
        self.tracing = tracing
        self.clock = clock or SystemClock()
        self.chance = chance or random.Random().random  # of back-off
        self.topic_handlers: list[TopicHandler] = []
        self.address_handlers: list[AddressHandler] = []
        self._running: RunningApp | None = None

    def topic(
        self,
        *topics: str,
        group: str | None = None,
        retries: int | Retry = RETRIES_DEFAULT,
        dead_letters: str | None = OWN_DEAD_LETTERS,
        to: str | None = None,
        concurrency: int = 1,
        batch: int | None = None,
        batch_wait: float = BATCH_WAIT_S_DEFAULT,
        exactly_once: bool = False,
        start: Literal["earliest", "latest"] = "earliest",
        grace: float = GRACE_S_DEFAULT,
    ) -> Callable[[FunctionT], FunctionT]:
        """Declare a handler of topics; docs/handlers.md explains each option. Raises UsageError."""
        if topics and callable(topics[0]):
            raise UsageError("Write @app.topic('orders', group='billing') with a topic and a group, not @app.topic.")
        options = TopicOptions(
            group, retries, dead_letters, to, concurrency, batch, batch_wait, exactly_once, start, grace
        )

        def declare(function: FunctionT) -> FunctionT:
            signature = read_signature(function, is_batch=batch is not None)
            self.topic_handlers.append(options.checked(topics, signature, decoder_of(signature.model)))
            return function

        return declare

    def address(self, address: str) -> Callable[[FunctionT], FunctionT]:
        """Declare a handler of a bus address: what it returns is the reply. Raises UsageError."""
        if callable(address):
            raise UsageError("Write @app.address('prices.get') with an address, not @app.address.")
        if is_durable(address):
            raise UsageError(
                f"{shown(address)} is a topic: write @app.topic({address.partition(':')[2]!r}, group=...)."
            )

        def declare(function: FunctionT) -> FunctionT:
            signature = read_signature(function)
            self.address_handlers.append(AddressHandler(signature, converter_of(signature.model), address))
            return function

        return declare

    async def publish(
        self,
        topic: str,
        value: Any,
        *,
        key: str | bytes | None = None,
        headers: Sequence[tuple[str, str | bytes]] = (),
    ) -> "Stored":
        """Store a message: a model, bytes, text or JSON. Returns when it is durable. Only while the app runs."""
        return await self._current.publish(topic, value, key, headers)

    @property
    def bus(self) -> "EventBus":
        """The event bus of the addresses, while the app runs."""
        return self._current.bus

    @asynccontextmanager
    async def running(
        self, *, bootstrap: str | None = None, bus: "EventBus | None" = None
    ) -> "AsyncIterator[RunningApp]":
        """Run the handlers on this event loop for as long as the block: `async with app.running():`.

        `bus` is one that exists, for the addresses. Leaving the block waits for what runs, and commits. Raises
        UsageError for an app without handlers.
        """
        try:
            from hutong.handlers.running.running import RunningApp
        except ModuleNotFoundError as error:
            if error.name != "confluent_kafka":
                raise
            raise UsageError(
                "Handlers need confluent-kafka, which is not installed: pip install 'hutong[durable]'.",
                ExitCode.UNAVAILABLE,
            ) from None
        if self._running is not None:
            raise UsageError("The app runs already.")
        if not self.topic_handlers and not self.address_handlers:
            raise UsageError("The app has no handlers: declare one with @app.topic(...) or @app.address(...).")
        self._running = RunningApp(self, bootstrap or self.bootstrap, bus)
        try:
            async with self._running as running:
                yield running
        finally:
            self._running = None

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT, or until a handler stops. Raises HandlingHalted then."""
        from hutong.handlers.running.signals import stopped_by_signal

        async with self.running() as running, stopped_by_signal() as stopped:
            await running.until_halted_or(stopped)

    def test(self, **options: Any) -> "Trial":
        """A broker in this process with the handlers at work, for a test: `with app.test() as test:`."""
        from hutong.handlers.running.trial import Trial

        return Trial(self, **options)

    def asyncapi(self) -> dict[str, Any]:
        """The AsyncAPI 3.0 document of all handlers."""
        from hutong.handlers.describe import asyncapi_document

        return asyncapi_document(self)

    def asyncapi_page(self) -> str:
        """The same as one HTML page, without scripts."""
        from hutong.handlers.describe_page import asyncapi_page

        return asyncapi_page(self.asyncapi())

    @property
    def _current(self) -> "RunningApp":
        if self._running is None:
            raise UsageError("The app does not run: use it in a handler, or within `async with app.running():`.")
        return self._running
