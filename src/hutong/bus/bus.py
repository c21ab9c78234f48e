"""The event bus: sends by address to consumers in this process, each in its own context.

Strategy: an address leads to an endless round over its consumers (sends) and to a tuple of them (publishes). Whenever a
consumer comes or goes, the round is dropped and the tuple replaced, under a lock; neither is changed. A send from any
thread takes one step of the round, a publish sees all those of one moment. The short way is for what most messages are:
a body that cannot change, no options, no interceptors. Everything else takes the careful way, which does the same by
longer means. Both stand here side by side, and make this file longer than most: what one does the other must do too.

Knows no network: other nodes and bridges are made of consumers and sends.
"""

import asyncio
import itertools
import logging
import threading
from asyncio import _get_running_loop
from collections.abc import Awaitable, Callable, Iterator
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, overload

from hutong.bus.delivery.consumer import BUFFERED_MESSAGES_MAX, DONE, Consumer, Handler
from hutong.bus.delivery.producer import WRITE_QUEUE_MAX, MessageProducer
from hutong.bus.durable.addresses import PREFIX, is_durable
from hutong.bus.durable.outcomes import Stored
from hutong.bus.durable.port import DurableLog
from hutong.bus.envelope.bodies import IMMUTABLE, WITHOUT_CODEC, UnknownBody, copied
from hutong.bus.envelope.codecs import SYSTEM_CODECS, Codecs, MessageCodec
from hutong.bus.envelope.interceptors import INTERCEPTORS_MAX, Delivery, Interceptor
from hutong.bus.envelope.message import REPLY_PREFIX, FullMessage, Message, TrackedMessage
from hutong.bus.envelope.reply import LoopReply, Reply
from hutong.bus.errors import BUILT_IN_CODE, BusClosed, FailureType, ReplyError
from hutong.bus.options import DEFAULT, DeliveryOptions
from hutong.bus.tracing import BusTracer
from hutong.bus.waiting.callbacks import CallbackExecutor, LoopExecutor
from hutong.bus.waiting.context_state import REPLIES_MAX, ContextState
from hutong.foundation.errors import LimitExceeded, UsageError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.numbered import NumberedWaitTable, Numbers
from hutong.runtime.contexts import QUEUED_MAX, Context, carried_variables, current_context
from hutong.runtime.runtime import Runtime
from hutong.runtime.timers import LoopTimers

if TYPE_CHECKING:
    from typing import Unpack

    from hutong.bus.durable.consume.driver import DurableConsumer
    from hutong.bus.durable.consume.driver import Handler as DurableHandler
    from hutong.bus.durable.options import DurableOptions
    from hutong.bus.durable.table import CompactedTable

CONSUMERS_MAX: Final = 1_000_000
"""Registrations on one bus."""
ADDRESS_CHARACTERS_MAX: Final = 1_024
_log = logging.getLogger("hutong.bus")


class EventBus:
    """Sends, publishes and requests by address. Made on a running event loop, which keeps its timers.

    `send`, `publish` and `request` may be called from any thread, inside a context or outside. They raise BusClosed
    after `close`, TypeError and ValueError for what cannot be sent, and LimitExceeded when a recipient's context has
    QUEUED_MAX messages waiting or the requester awaits REPLIES_MAX replies.
    """

    def __init__(self, runtime: Runtime, *, log: DurableLog | None = None) -> None:
        self.is_plain = True  # without interceptors and tracer
        self.tracer: BusTracer | None = None
        self.inbound_chain: tuple[Interceptor, ...] = ()
        self.outbound_chain: tuple[Interceptor, ...] = ()
        self._runtime = runtime
        self._log = log
        self._rounds: dict[str, Iterator[tuple[Handler, Context]]] = {}  # endless
        self._consumers: dict[str, tuple[Consumer, ...]] = {}
        self._count = 0
        self._codecs = Codecs()
        self._loop = asyncio.get_running_loop()
        self._home = LoopExecutor(self._loop)
        self._wheel = TimerWheel(runtime.clock.monotonic_ms())
        self._timers = LoopTimers(self._loop, self._wheel, runtime.clock)
        self._states: dict[object, ContextState] = {}  # by context, or by event loop, or None for plain threads
        self._numbers = Numbers()
        self._lock = threading.Lock()  # over registrations, chains and states
        self._close_hooks: list[Callable[[], Awaitable[object]]] = []
        self._closed: BusClosed | None = None

    @property
    def runtime(self) -> Runtime:
        """The one that its consumers' contexts are of."""
        return self._runtime

    def send(self, address: str, body: Any = None, options: DeliveryOptions = DEFAULT) -> None:
        """Give the message to one consumer of the address: to each in turn. To nobody, if there is none."""
        around = self._rounds.get(address)
        kind = type(body)
        if (
            around is None
            or options is not DEFAULT
            or kind not in WITHOUT_CODEC
            or not self.is_plain
            or len(copy_context()) > (current_context() is not None)  # variables to carry
        ):
            self._send_carefully(address, body, options)
            return
        message = Message(address, body) if kind in IMMUTABLE else TrackedMessage(address, copied(body))
        deliver, context = next(around)
        queue = context.queue
        if len(queue) >= QUEUED_MAX:
            raise LimitExceeded("queued_max", QUEUED_MAX)
        queue.append((deliver, message))
        if not context.is_scheduled:
            context.schedule()

    def publish(self, address: str, body: Any = None, options: DeliveryOptions = DEFAULT) -> "Awaitable[Stored | None]":
        """Give a copy of the message to every consumer of the address.

        A durable address (`topic:NAME`) gives a promise of where the message is stored: see docs/durable-addresses.md.
        Any other gives an awaitable of None that is done already.
        """
        if not self._knows(address):
            if is_durable(address):
                return self._log_of(address).publish(self.callers_state(), address, body, options)
            self._send_carefully(address, body, options)  # a reply address has one reader
            return DONE
        message = self._message(address, body, options, is_send=False)
        message._variables = carried_variables()
        if self.tracer is not None and options.is_traced:
            self.tracer.sending(message)
        if self.outbound_chain:
            Delivery(message, self.outbound_chain, self._publish, self.tell).begin()
        else:
            self._publish(message)
        return DONE

    def request(self, address: str, body: Any = None, options: DeliveryOptions = DEFAULT) -> Reply:
        """Send the message and await a reply: see Reply for how. It fails with a ReplyError."""
        loop = _get_running_loop()
        own = current_context()
        state = self._states.get(own or loop) or self.callers_state()
        around = self._rounds.get(address)
        kind = type(body)
        if (
            loop is None
            or around is None
            or options is not DEFAULT
            or kind not in WITHOUT_CODEC
            or not self.is_plain
            or len(copy_context()) > (own is not None)  # variables to carry
        ):
            return self._request_carefully(state, address, body, options)
        if kind not in IMMUTABLE:
            body = copied(body)
        deliver, context = next(around)
        queue = context.queue
        if len(queue) >= QUEUED_MAX:
            raise LimitExceeded("queued_max", QUEUED_MAX)
        reply: LoopReply = LoopReply()
        future: asyncio.Future[Message] = loop.create_future()
        reply._future = future
        reply.__await__ = future.__await__
        reply._executor = state.executor
        reply.bus = self
        reply._handlers = None
        reply._requested = address
        state.queue.park(reply)
        queue.append((deliver, TrackedMessage(address, body, None, reply)))
        if not context.is_scheduled:
            context.schedule()
        return reply

    @overload
    def consumer(
        self,
        address: str,
        handler: Handler | None = None,
        *,
        local_only: bool = False,
        max_buffered_messages: int = BUFFERED_MESSAGES_MAX,
        context: Context | None = None,
    ) -> Consumer: ...
    @overload
    def consumer(
        self,
        address: str,
        handler: "DurableHandler | None" = None,
        *,
        max_buffered_messages: int = BUFFERED_MESSAGES_MAX,
        context: Context | None = None,
        **durable: "Unpack[DurableOptions]",
    ) -> "DurableConsumer": ...
    def consumer(
        self,
        address: str,
        handler: Any = None,
        *,
        local_only: bool = False,
        max_buffered_messages: int = BUFFERED_MESSAGES_MAX,
        context: Context | None = None,
        **durable: Any,
    ) -> "Consumer | DurableConsumer":
        """Receive at an address, from now on; in `context`, else in the caller's, else in a new one.

        While it has no handler, no demand or no `async for`, up to `max_buffered_messages` are kept for it. It is
        unregistered with its context. Raises LimitExceeded at CONSUMERS_MAX.

        A durable address (`topic:NAME`) takes a group and further options: see docs/durable-addresses.md.
        """
        _check_address(address)
        if address.startswith(REPLY_PREFIX):
            raise ValueError(f"addresses that begin with {REPLY_PREFIX!r} are the bus's own")
        if type(max_buffered_messages) is not int or max_buffered_messages < 0:
            raise ValueError(f"max_buffered_messages is a count from 0, not {max_buffered_messages!r}")
        if durable and not is_durable(address):
            raise TypeError(f"{min(durable)} is for durable addresses, which begin with {PREFIX!r}")
        given = context or current_context()
        context = given or self._runtime.context(name=f"consumer of {address}")
        state = self._state_of(context, context)
        if given is not None:
            state.end_with(given)
        if is_durable(address):
            log = self._log_of(address)
            self._check_open()
            return log.consumer(state, context, address, handler, max_buffered_messages, durable)  # type: ignore[arg-type]
        consumer = Consumer(state, context, address, local_only=local_only, max_buffered_messages=max_buffered_messages)
        if handler is not None:
            consumer.handler(handler)
        with self._lock:
            self._check_open()
            if self._count >= CONSUMERS_MAX:
                raise LimitExceeded("consumers_max", CONSUMERS_MAX)
            self._set_consumers(address, (*self._consumers.get(address, ()), consumer))
            self._count += 1
            state.consumers[consumer] = None
        consumer.settle()
        return consumer

    def sender(
        self, address: str, options: DeliveryOptions = DEFAULT, *, write_queue_max: int = WRITE_QUEUE_MAX
    ) -> MessageProducer:
        """A producer that sends: it is full while `write_queue_max` of its messages have not been handled.

        Raises UsageError for a durable address.
        """
        _check_address(address)
        _check_not_durable(address)
        return MessageProducer(self, address, options, write_queue_max, is_send=True)

    def publisher(
        self, address: str, options: DeliveryOptions = DEFAULT, *, write_queue_max: int = WRITE_QUEUE_MAX
    ) -> MessageProducer:
        """A producer that publishes: as `sender`, and a message is handled when every consumer has handled it."""
        _check_address(address)
        _check_not_durable(address)
        return MessageProducer(self, address, options, write_queue_max, is_send=False)

    def register_codec(self, codec: MessageCodec[Any, Any], *, default_for: type | None = None) -> None:
        """Let bodies be sent by a codec: by its name in the options, or by their exact type, `default_for`.

        Raises ValueError where the name or the type has a codec already, as the system's have.
        """
        with self._lock:
            self._codecs.register(codec, default_for)

    def unregister_codec(self, name: str) -> None:
        """Forget a codec; no harm if there is none. Raises ValueError for a system codec."""
        with self._lock:
            self._codecs.unregister(name)

    def add_outbound_interceptor(self, interceptor: Interceptor) -> None:
        """Let it see every message (replies too) before it is sent, in the sender; it goes on by `delivery.next()`."""
        with self._lock:
            self._set_chains(_longer(self.outbound_chain, interceptor), self.inbound_chain)

    def remove_outbound_interceptor(self, interceptor: Interceptor) -> None:
        with self._lock:
            self._set_chains(_shorter(self.outbound_chain, interceptor), self.inbound_chain)

    def add_inbound_interceptor(self, interceptor: Interceptor) -> None:
        """Let it see every message (replies too) before its handler, in the handler's context."""
        with self._lock:
            self._set_chains(self.outbound_chain, _longer(self.inbound_chain, interceptor))

    def remove_inbound_interceptor(self, interceptor: Interceptor) -> None:
        with self._lock:
            self._set_chains(self.outbound_chain, _shorter(self.inbound_chain, interceptor))

    def set_tracer(self, tracer: BusTracer | None) -> None:
        """Report every message except replies to the tracer from now on. RPC calls have their own: `Rpc.set_tracer`.

        Raises UsageError where there is another one already.
        """
        with self._lock:
            if tracer is not None and self.tracer not in (None, tracer):
                raise UsageError("this bus is traced already.")
            self.tracer = tracer
            self._set_chains(self.outbound_chain, self.inbound_chain)

    def add_close_hook(self, hook: Callable[[], Awaitable[object]]) -> None:
        """Await `hook()` when the bus is closed, before anything of it ends: for what is built on it."""
        self._close_hooks.append(hook)

    async def close(self) -> None:
        """Unregister every consumer and fail every reply that is awaited. A second call does nothing."""
        error = BusClosed("the event bus has been closed")
        while self._close_hooks:
            await self._close_hooks.pop()()
        if self._log is not None:
            await self._log.close()
        with self._lock:
            if self._closed is not None:
                return
            self._closed = error
            states = list(self._states.values())
        for state in states:
            state.end(error)
        await asyncio.sleep(0)  # the tables have their timers stopped on this loop
        self._timers.close()

    async def __aenter__(self) -> "EventBus":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def replies_waiting(self) -> int:
        """The number of replies awaited, in all contexts together."""
        for state in list(self._states.values()):
            state.waits.forget_abandoned()
        return sum([len(state.waits) for state in list(self._states.values())])

    def answer(self, reply: Reply, body: Any, options: DeliveryOptions) -> None:
        """For messages: deliver the reply. Dropped if it is not awaited any more."""
        self._deliver_reply(reply, self._message(reply._number, body, options, is_send=True))

    def answer_and_request(self, reply: Reply, body: Any, options: DeliveryOptions) -> Reply:
        """For messages: deliver the reply, and await a reply to it."""
        return self._answer_and_await(self.callers_state(), reply, body, options)

    def message_of(self, producer: MessageProducer, body: Any) -> FullMessage:
        """For producers: what will be carried, as the body is now."""
        self._check_open()
        message = self._message(producer.address, body, producer.options, is_send=producer.is_send)
        message._variables = carried_variables()
        if self.tracer is not None and producer.options.is_traced:
            self.tracer.sending(message)  # now, though it may be held for a while: who writes it caused it
        return message

    def carry(self, message: FullMessage) -> None:
        """For producers: send or publish. Raises ReplyError NO_HANDLERS where nobody would get it."""
        self._check_open()
        address = message.address
        if address not in self._consumers:
            raise ReplyError(FailureType.NO_HANDLERS, BUILT_IN_CODE, f"no handlers for address {address!r}")
        carry = self._send if message.is_send else self._publish
        if self.outbound_chain:
            Delivery(message, self.outbound_chain, carry, self.tell).begin()
        else:
            carry(message)

    def on_home_loop(self, work: Callable[[], None]) -> None:
        """For producers: do it soon on the loop of the bus; from any thread. Not at all once that loop has ended."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    def remove_consumer(self, consumer: Consumer) -> None:
        """For consumers: it receives nothing more."""
        with self._lock:
            present = self._consumers[consumer.address]
            at = present.index(consumer)  # thousands may listen at one address and leave together
            self._count -= 1
            self._set_consumers(consumer.address, present[:at] + present[at + 1 :])
            state = self._states.get(consumer.context)
            if state is not None and state.is_idle:
                del self._states[consumer.context]

    def remove_state(self, context: Context) -> None:
        """For states: the context has been closed."""
        with self._lock:
            self._states.pop(context, None)

    def callers_state(self) -> ContextState:
        """The state of the caller: of its context, else of the loop it runs on, else the one for plain threads."""
        context = current_context()
        if context is not None:
            own = self._state_of(context, context)
            own.end_with(context)
            return own
        loop = _get_running_loop()
        state = self._states.get(loop)
        if state is not None:
            return state
        return self._state_of(loop, self._home if loop is None or loop is self._loop else LoopExecutor(loop))

    def tell(self, error: BaseException) -> None:
        """Of what an interceptor of the caller's raised: to its context's exception handler, else to the log."""
        context = current_context()
        if context is not None:
            context.fail(error)
        else:
            _log.error("an interceptor failed: %s", error, exc_info=error)

    def _knows(self, address: str) -> bool:
        """True when the address leads to consumers. Raises for a bad address and for a closed bus."""
        if address in self._consumers:
            return True
        _check_address(address)
        self._check_open()
        return not address.startswith((REPLY_PREFIX, PREFIX))

    def _check_open(self) -> None:
        if self._closed is not None:
            raise BusClosed(str(self._closed))

    def table(self, topic: str) -> "CompactedTable":
        """A table in a compacted topic of the bus's log, to be opened by its one owner.

        Raises UsageError where the bus has no log, or for what is no name of a topic.
        """
        return self._log_of(f"the table {topic}").table(topic)

    def _log_of(self, address: str) -> DurableLog:
        if self._log is None:
            raise UsageError(
                f"{address!r} is durable, and this bus has no log: make the node with hutong.Node(kafka='HOST:PORT'), "
                "or the bus with EventBus(runtime, log=KafkaLog('HOST:PORT'))."
            )
        return self._log

    def _message(
        self, address: str | int, body: Any, options: DeliveryOptions, *, is_send: bool, reply: Reply | None = None
    ) -> FullMessage:
        body, codec = self._prepared(body, options.codec_name)
        headers = None if options.headers is None else options.headers.pairs
        return FullMessage(address, body, headers, reply, is_send, codec)

    def _prepared(self, body: Any, codec_name: str | None) -> tuple[Any, MessageCodec[Any, Any] | None]:
        """The recipient's body, and its codec unless the type implies it."""
        if codec_name is not None:
            codec = self._codecs.named(codec_name)
            return codec.transform(body), codec
        kind = type(body)
        if kind in IMMUTABLE:
            return body, None
        if kind is dict or kind is list:
            return copied(body), None
        if kind is ReplyError:
            return body, SYSTEM_CODECS["replyexception"]
        default = self._codecs.default_for(kind)
        if default is None:
            raise UnknownBody(kind)
        return default.transform(body), default

    def _send_carefully(self, address: str, body: Any, options: DeliveryOptions) -> None:
        if address not in self._consumers and not self._knows(address):
            reply = self._awaited(address)
            if reply is not None:
                self._deliver_reply(reply, self._message(reply._number, body, options, is_send=True))
            return
        message = self._message(address, body, options, is_send=True)
        message._variables = carried_variables()
        if self.tracer is not None and options.is_traced:
            self.tracer.sending(message)
        if self.outbound_chain:
            Delivery(message, self.outbound_chain, self._send, self.tell).begin()
        else:
            self._send(message)

    def _request_carefully(self, state: ContextState, address: str, body: Any, options: DeliveryOptions) -> Reply:
        if not self._knows(address):
            awaited = self._awaited(address)
            if awaited is not None:
                return self._answer_and_await(state, awaited, body, options)
        reply = self._reply(state, address)
        message = self._message(address, body, options, is_send=True, reply=reply)
        message._variables = carried_variables()
        state.queue_for(options.timeout_ms).park(reply)
        if self.tracer is not None and options.is_traced:
            self.tracer.sending(message)
        if self.outbound_chain:
            Delivery(message, self.outbound_chain, self._send, self.tell).begin()
        else:
            self._send(message)
        return reply

    def _send(self, message: Message) -> None:
        address: str = message._address  # type: ignore[assignment]  # a reply has another way
        around = self._rounds.get(address) or self._round_of(address)
        if around is None:
            if message._reply is not None:
                message._reply.fail_without_handlers()
            return
        deliver, context = next(around)
        if message._credit is not None or message._variables is not None:
            deliver = deliver.__self__.take_carefully  # type: ignore[attr-defined]  # a method of the consumer
        context.run(deliver, message)

    def _publish(self, message: Message) -> None:
        consumers = self._consumers.get(message.address, ())
        is_plain = message._credit is None and message._variables is None
        shared: Any = message.body if consumers and consumers[0].shares_bodies else None
        for consumer in consumers[1:]:
            headers = message.header_pairs
            body = message.body
            if message._codec is not None:
                body = message._codec.transform(body)
            elif type(body) not in IMMUTABLE:
                if shared is None or not consumer.shares_bodies:
                    body, _ = self._prepared(body, None)
                    shared = body if consumer.shares_bodies else shared
                else:
                    body = shared
            more = (message._codec, message._credit, message._variables)
            another = FullMessage(message.address, body, headers, None, False, *more)
            consumer.context.run(consumer.deliver if is_plain else consumer.take_carefully, another)
        if consumers:
            first = consumers[0]
            first.context.run(first.deliver if is_plain else first.take_carefully, message)

    def _awaited(self, address: str) -> Reply | None:
        """The reply awaited at this address, or None. Raises UsageError for a durable address."""
        if is_durable(address):
            raise UsageError(
                f"{address!r} is durable: it is published to, since each group receives every message; nobody replies."
            )
        number = address.removeprefix(REPLY_PREFIX)
        if not (number.isascii() and number.isdigit() and len(number) < 20):
            return None
        wait = self._numbers.find(int(number))
        return wait if isinstance(wait, Reply) else None

    def _reply(self, state: ContextState, requested: str) -> Reply:
        loop = _get_running_loop()
        return (
            Reply(state.executor, self, requested)
            if loop is None
            else LoopReply.on(loop, state.executor, self, requested)
        )

    def _answer_and_await(self, state: ContextState, reply: Reply, body: Any, options: DeliveryOptions) -> Reply:
        another = self._reply(state, reply.address)
        message = self._message(reply._number, body, options, is_send=True, reply=another)
        state.queue_for(options.timeout_ms).park(another)
        if reply.is_waiting:
            self._deliver_reply(reply, message)
        else:
            text = f"nobody awaits a reply at {reply.address!r} any more"
            another.fail(ReplyError(FailureType.NO_HANDLERS, BUILT_IN_CODE, text))
        return another

    def _deliver_reply(self, reply: Reply, message: Message) -> None:
        if self.outbound_chain:
            Delivery(message, self.outbound_chain, partial(self._carry_reply, reply), self.tell, reply).begin()
        else:
            self._carry_reply(reply, message)

    def _carry_reply(self, reply: Reply, message: Message) -> None:
        if self.inbound_chain:
            reply.arrive(partial(self._receive_reply, reply, message))
        else:
            _end_reply(reply, message)

    def _receive_reply(self, reply: Reply, message: Message) -> None:
        """In the requester's context."""
        if self.inbound_chain:
            Delivery(message, self.inbound_chain, partial(_end_reply, reply), self.tell, reply).begin()
        else:
            _end_reply(reply, message)

    def _set_consumers(self, address: str, consumers: tuple[Consumer, ...]) -> None:
        self._rounds.pop(address, None)
        if consumers:
            self._consumers[address] = consumers
        else:
            self._consumers.pop(address, None)

    def _round_of(self, address: str) -> Iterator[tuple[Handler, Context]] | None:
        """The round of an address, made at the first send after its consumers have changed; None without consumers."""
        with self._lock:
            consumers = self._consumers.get(address)
            if consumers is not None and address not in self._rounds:
                around = itertools.cycle([(consumer.deliver, consumer.context) for consumer in consumers])
                self._rounds[address] = around
            return self._rounds.get(address)

    def _set_chains(self, outbound: tuple[Interceptor, ...], inbound: tuple[Interceptor, ...]) -> None:
        self.outbound_chain, self.inbound_chain = outbound, inbound
        self.is_plain = not outbound and not inbound and self.tracer is None
        for consumers in self._consumers.values():
            for consumer in consumers:
                consumer.settle()

    def _state_of(self, key: object, executor: CallbackExecutor) -> ContextState:
        state = self._states.get(key)
        if state is not None:
            return state
        with self._lock:
            self._check_open()
            state = self._states.get(key)
            if state is not None:
                return state
            table: NumberedWaitTable[Any] = NumberedWaitTable(
                "replies_max", self._wheel, self._runtime.clock, REPLIES_MAX, self.on_home_loop, self._numbers
            )
            state = self._states[key] = ContextState(self, executor, table)
            gone = [key for key in self._states if isinstance(key, asyncio.AbstractEventLoop) and key.is_closed()]
            lost = [self._states.pop(key) for key in gone]
        for other in lost:
            other.end(BusClosed("the event loop of the requester has been closed"))
        return state


def _end_reply(reply: Reply, message: Message) -> None:
    if isinstance(message.body, ReplyError):
        reply.fail(message.body)
    else:
        reply.resume(message)


def _check_address(address: object) -> None:
    if not isinstance(address, str):
        raise TypeError(f"an address is a string, not {type(address).__name__}")
    if not 1 <= len(address) <= ADDRESS_CHARACTERS_MAX:
        raise ValueError(f"an address has 1 to {ADDRESS_CHARACTERS_MAX} characters, not {len(address)}")


def _check_not_durable(address: str) -> None:
    if is_durable(address):
        raise UsageError(
            f"{address!r} is durable: `await bus.publish({address!r}, ...)` waits until the message is stored, "
            "and that is the back-pressure."
        )


def _longer(chain: tuple[Interceptor, ...], interceptor: Interceptor) -> tuple[Interceptor, ...]:
    if not callable(interceptor):
        raise TypeError(f"an interceptor is called with each delivery; {type(interceptor).__name__} is not callable")
    if len(chain) >= INTERCEPTORS_MAX:
        raise LimitExceeded("interceptors_max", INTERCEPTORS_MAX)
    return (*chain, interceptor)


def _shorter(chain: tuple[Interceptor, ...], interceptor: Interceptor) -> tuple[Interceptor, ...]:
    return tuple([present for present in chain if present != interceptor])
