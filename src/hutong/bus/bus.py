"""The event bus: sends by address to consumers in this process, each in its own context.

Strategy: a send takes one step of the address's round over its consumers, a publish goes to all of them. The fast path
is for most messages: an immutable body, no options, no interceptors, no context variables. Everything else takes the
careful path, with the same effects; what one does the other must do too, so both are in this file.

Knows no network: bridges are made of consumers and sends, and other nodes are receivers in its registrations.
"""

import asyncio
from asyncio import _get_running_loop
from collections.abc import Awaitable, Callable, Iterator
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, overload

from hutong.bus.delivery.addresses import check_address, check_not_durable, check_registration
from hutong.bus.delivery.consumer import BUFFERED_MESSAGES_MAX, DONE, Consumer, Handler
from hutong.bus.delivery.encoding import EncodingBus
from hutong.bus.delivery.producer import WRITE_QUEUE_MAX, MessageProducer
from hutong.bus.delivery.publication import deliver_copies
from hutong.bus.delivery.registrations import Among, Registrations, Turn, address_figures
from hutong.bus.delivery.remote import RemoteSide
from hutong.bus.delivery.replies import awaited_reply, deliver_reply
from hutong.bus.delivery.unanswered import UnansweredRequests
from hutong.bus.durable.addresses import PREFIX, is_durable
from hutong.bus.durable.outcomes import Stored
from hutong.bus.durable.port import DurableLog, log_for
from hutong.bus.envelope.bodies import IMMUTABLE, WITHOUT_CODEC, copied
from hutong.bus.envelope.message import REPLY_PREFIX, FullMessage, Message, TrackedMessage
from hutong.bus.envelope.reply import LoopReply, Reply, reply_to
from hutong.bus.errors import BUILT_IN_CODE, BusClosed, FailureType, ReplyError
from hutong.bus.figures import AddressFigures, BusFigures
from hutong.bus.options import DEFAULT, DeliveryOptions, GivenHeaders, given_options
from hutong.bus.shared.shared import SharedData
from hutong.bus.waiting.context_state import ContextState
from hutong.bus.waiting.context_states import ContextStates
from hutong.foundation.errors import LimitExceeded
from hutong.runtime.contexts.contexts import QUEUED_MAX, Context, carried_variables, current_context
from hutong.runtime.runtime import Runtime

if TYPE_CHECKING:
    from typing import Unpack

    from hutong.bus.durable.consume.driver import DurableConsumer
    from hutong.bus.durable.consume.driver import Handler as DurableHandler
    from hutong.bus.durable.options import DurableOptions
    from hutong.bus.durable.table import CompactedTable


class EventBus(EncodingBus):
    """Sends, publishes and requests by address. Made on a running event loop, which keeps its timers.

    `send`, `publish` and `request` may be called from any thread, inside a context or outside. They raise BusClosed
    after `close`, TypeError and ValueError for what cannot be sent, and LimitExceeded when a recipient's context has
    QUEUED_MAX messages waiting or the requester awaits REPLIES_MAX replies.

    Their options are keywords (`headers={...}`, `codec="NAME"`, and `timeout=SECONDS` of a request) or one object
    `DeliveryOptions(...)`, which may be used again. Raises UsageError for both at once and for a wrong keyword.
    """

    # The keywords are plain parameters: one that Python's syntax makes keyword-only costs a look-up of its default in
    # a dict, which was 4 % of a send. Given by position they raise, since `options` comes before them.

    def __init__(self, runtime: Runtime, *, log: DurableLog | None = None) -> None:
        self._runtime = runtime
        self._log = log
        self._registrations = Registrations()
        super().__init__(self._registrations)
        self._rounds = self._registrations.rounds
        self._unanswered = UnansweredRequests(runtime.clock)
        self._loop = asyncio.get_running_loop()
        self._contexts = ContextStates(self, runtime.clock, self.on_home_loop)
        self._states = self._contexts.by_key  # for `request`, which cannot pay for a call
        self._close_hooks: list[Callable[[], Awaitable[object]]] = []
        self._closed: BusClosed | None = None
        self.shared = SharedData(self)  # counters, locks and maps; of the cluster, once the bus is in one

    @property
    def runtime(self) -> Runtime:
        """The one that its consumers' contexts are of."""
        return self._runtime

    @property
    def remote_side(self) -> RemoteSide:
        """The side for other nodes: what they have registered, and what came from them."""
        return RemoteSide(self, self._registrations, self._codecs, self._contexts.numbers)

    def send(
        self,
        address: str,
        body: Any = None,
        options: DeliveryOptions = DEFAULT,
        headers: GivenHeaders = None,
        codec: str | None = None,
    ) -> None:
        """Give the message to one consumer of the address, round robin. Without consumers it is dropped."""
        around = self._rounds.get(address)
        kind = type(body)
        # A copy of the context variables and its length are the cheapest question for variables to carry: of those that
        # a caller inside a context has, one is `current_context` itself.
        if (
            around is None
            or options is not DEFAULT
            or headers is not None
            or codec is not None
            or not self.is_plain
            or ((count := len(copy_context())) and (count > 1 or current_context() is None))
        ):
            # Checked here, since the call of `given_options` is 4 % of a send with options.
            if headers is not None or codec is not None or type(options) is not DeliveryOptions:
                options = given_options(options, headers, codec)
            self._send_carefully(address, body, options)
            return
        # The sender may change a body after this call, and a copy is due only for bodies that can change.
        if kind in IMMUTABLE:
            message = Message(address, body)
        elif kind in WITHOUT_CODEC:
            message = TrackedMessage(address, copied(body))
        else:
            # A type of the user's: it needs a codec registered for it, or the send raises.
            self._send_carefully(address, body, options)
            return
        deliver, context = next(around)
        queue = context.queue  # `Context.run` in place, which saves its call
        # A bound and an error instead of blocking: the sender may be the very context that should empty this queue.
        if len(queue) >= QUEUED_MAX:
            raise LimitExceeded("queued_max", QUEUED_MAX)
        queue.append((deliver, message))
        if not context.is_scheduled:
            context.schedule()

    def publish(
        self,
        address: str,
        body: Any = None,
        options: DeliveryOptions = DEFAULT,
        headers: GivenHeaders = None,
        codec: str | None = None,
    ) -> "Awaitable[Stored | None]":
        """Give a copy of the message to every consumer of the address.

        A durable address (`topic:NAME`) gives a promise of where the message is stored: see docs/durable-addresses.md.
        Any other gives an awaitable of None that is done already.
        """
        if headers is not None or codec is not None or type(options) is not DeliveryOptions:
            options = given_options(options, headers, codec)
        if not self._knows(address):
            # The log delivers it to every group, also of other processes, so no consumer here is asked.
            if is_durable(address):
                return log_for(self._log, address).publish(self.callers_state(), address, body, options)
            self._send_carefully(address, body, options)  # a reply address has one reader
            return DONE
        message = self._message(address, body, options, is_send=False)
        self._route(message, options, self._publish_here if options.local_only else self._publish)
        return DONE

    def request(
        self,
        address: str,
        body: Any = None,
        options: DeliveryOptions = DEFAULT,
        headers: GivenHeaders = None,
        timeout: float | None = None,
        codec: str | None = None,
    ) -> Reply:
        """Send the message and await a reply, for 30 seconds or `timeout`: see Reply for how.

        It fails with a ReplyError.
        """
        loop = _get_running_loop()  # None on a worker thread, where a reply has no future of a loop
        own = current_context()
        state = self._states.get(own or loop) or self.callers_state()
        around = self._rounds.get(address)
        kind = type(body)
        # The same questions as in `send`, and a loop, whose future a task awaits faster than a promise.
        if (
            loop is None
            or around is None
            or options is not DEFAULT
            or headers is not None
            or timeout is not None
            or codec is not None
            or kind not in WITHOUT_CODEC
            or not self.is_plain
            or len(copy_context()) > (own is not None)  # variables to carry
        ):
            return self._request_carefully(state, address, body, given_options(options, headers, codec, timeout))
        if kind not in IMMUTABLE:
            body = copied(body)
        deliver, context = next(around)
        queue = context.queue
        # Checked before the reply is parked, so that a refused request leaves no wait behind.
        if len(queue) >= QUEUED_MAX:
            raise LimitExceeded("queued_max", QUEUED_MAX)
        # Slots filled in place cost half of a call of `LoopReply.on`, which does the same.
        reply: LoopReply = LoopReply()
        future: asyncio.Future[Message] = loop.create_future()
        reply._future = future
        reply.__await__ = future.__await__
        reply._executor = state.executor
        reply.bus = self
        reply._handlers = None
        reply._requested = address
        # Parked before the message is queued: a consumer on another thread may answer at once.
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
        check_registration(address, max_buffered_messages, durable)
        given = context or current_context()
        context = given or self._runtime.context(name=f"consumer of {address}")
        state = self._contexts.of(context, context)
        # A context made for this consumer alone has no other owner, so it is forgotten with the consumer.
        if given is not None:
            state.end_with(given)
        if is_durable(address):
            log = log_for(self._log, address)
            self._check_open()
            return log.consumer(state, context, address, handler, max_buffered_messages, durable)  # type: ignore[arg-type]
        consumer = Consumer(state, context, address, local_only=local_only, max_buffered_messages=max_buffered_messages)
        # Before it is registered: otherwise a first message on another thread would be buffered for no reason.
        if handler is not None:
            consumer.handler(handler)
        # One lock with `close`: a consumer is either refused here or unregistered there.
        with self._lock:
            self._check_open()
            self._registrations.add(consumer)
            state.consumers[consumer] = None
        consumer.settle()  # interceptors may have come between its making and its registration
        return consumer

    def sender(
        self,
        address: str,
        options: DeliveryOptions = DEFAULT,
        *,
        headers: GivenHeaders = None,
        codec: str | None = None,
        write_queue_max: int = WRITE_QUEUE_MAX,
    ) -> MessageProducer:
        """A producer that sends: it is full while `write_queue_max` of its messages have not been handled.

        Raises UsageError for a durable address.
        """
        check_address(address)
        check_not_durable(address)
        return MessageProducer(self, address, given_options(options, headers, codec), write_queue_max, is_send=True)

    def publisher(
        self,
        address: str,
        options: DeliveryOptions = DEFAULT,
        *,
        headers: GivenHeaders = None,
        codec: str | None = None,
        write_queue_max: int = WRITE_QUEUE_MAX,
    ) -> MessageProducer:
        """A producer that publishes: as `sender`, and a message is handled when every consumer has handled it."""
        check_address(address)
        check_not_durable(address)
        return MessageProducer(self, address, given_options(options, headers, codec), write_queue_max, is_send=False)

    def add_close_hook(self, hook: Callable[[], Awaitable[object]]) -> None:
        """Await `hook()` when the bus is closed, before anything of it ends: for what is built on it."""
        self._close_hooks.append(hook)

    async def close(self) -> None:
        """Unregister every consumer and fail every reply that is awaited. A second call does nothing."""
        error = BusClosed("the event bus has been closed")
        # Last in, first out, and while messages still flow: what is built on the bus may need it to end well.
        while self._close_hooks:
            await self._close_hooks.pop()()
        if self._log is not None:
            await self._log.close()
        with self._lock:
            if self._closed is not None:  # two tasks may close at the same time, and the hooks await
                return
            self._closed = error
        await self._contexts.close(error)
        await self.shared.close()

    async def __aenter__(self) -> "EventBus":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def figures(self) -> BusFigures:
        """The sizes of this moment; from any thread."""
        addresses, consumers = self._registrations.by_address, self._registrations.consumer_count
        return BusFigures(len(addresses), consumers, self.replies_waiting, self.unanswered_total)

    def addresses(self) -> list[AddressFigures]:
        """Each address that has consumers, here or elsewhere, in order of their names; from any thread."""
        with self._lock:
            found = list(self._registrations.by_address.items())
        return [address_figures(address, receivers) for address, receivers in sorted(found)]

    @property
    def replies_waiting(self) -> int:
        """The number of replies awaited, in all contexts together."""
        return self._contexts.count_waits()

    @property
    def unanswered_total(self) -> int:
        """The number of requests so far that got no reply in time."""
        return self._unanswered.total

    def answer(self, reply: Reply, body: Any, options: DeliveryOptions) -> None:
        """For messages: deliver the reply. Dropped if it is not awaited any more."""
        deliver_reply(self, reply, self._message(reply._number, body, options, is_send=True))

    def request_expired(self, requested: str) -> None:
        """For replies: a request to the address got no reply in time."""
        self._unanswered.note(requested)

    def answer_and_request(self, reply: Reply, body: Any, options: DeliveryOptions) -> Reply:
        """For messages: deliver the reply, and await a reply to it."""
        return self._answer_and_await(self.callers_state(), reply, body, options)

    def message_of(self, producer: MessageProducer, body: Any) -> FullMessage:
        """For producers: what will be carried, as the body is now."""
        self._check_open()
        message = self._message(producer.address, body, producer.options, is_send=producer.is_send)
        message._variables = carried_variables()
        if self.tracer is not None and producer.options.is_traced:
            self.tracer.sending(message)  # now, though it may be held: the parent is the writer's span
        return message

    def carry(self, message: FullMessage, *, is_local_only: bool = False) -> None:
        """For producers: send or publish. Raises ReplyError NO_HANDLERS where nobody would get it."""
        self._check_open()
        address = message.address
        # As `write` of a Vert.x producer: unlike `send`, it has a promise that can report the loss.
        if address not in self._consumers or (
            is_local_only and not self._registrations.receivers_of(address, Among.OF_PROCESS)
        ):
            raise ReplyError(FailureType.NO_HANDLERS, BUILT_IN_CODE, f"no handlers for address {address!r}")
        if is_local_only:
            self._intercept(message, self._send_here if message.is_send else self._publish_here)
        else:
            self._intercept(message, self._send if message.is_send else self._publish)

    def on_home_loop(self, work: Callable[[], None]) -> None:
        """For producers: do it soon on the loop of the bus; from any thread. Not at all once that loop has ended."""
        # Credits come back from `__del__`, also after the loop has ended; an error there could only be printed.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    def remove_consumer(self, consumer: Consumer) -> None:
        """For consumers: it receives nothing more."""
        self._registrations.remove(consumer)
        # Otherwise a program that registers consumers without a context would collect states without end.
        self._contexts.forget_idle(consumer.context)

    def callers_state(self) -> ContextState:
        """For producers, iterations and logs: the state of the caller's context."""
        return self._contexts.of_caller()

    def _knows(self, address: str) -> bool:
        """True when the address leads to consumers. Raises for a bad address and for a closed bus."""
        if address in self._consumers:
            return True
        # The checks come after the lookup: an address with consumers was checked at their registration.
        check_address(address)
        self._check_open()
        return not address.startswith((REPLY_PREFIX, PREFIX))

    def _check_open(self) -> None:
        if self._closed is not None:
            raise BusClosed(str(self._closed))

    def table(self, topic: str) -> "CompactedTable":
        """A table in a compacted topic of the bus's log, to be opened by its one owner.

        Raises UsageError where the bus has no log, or for what is no name of a topic.
        """
        return log_for(self._log, f"the table {topic}").table(topic)

    def _send_carefully(self, address: str, body: Any, options: DeliveryOptions) -> None:
        if address not in self._consumers and not self._knows(address):
            # `Message.reply_address` is public: code that knows only this text may answer by a plain send.
            reply = awaited_reply(self._contexts.numbers, address)
            if reply is not None:
                deliver_reply(self, reply, self._message(reply._number, body, options, is_send=True))
            return
        message = self._message(address, body, options, is_send=True)
        self._route(message, options, self._send_here if options.local_only else self._send)

    def _request_carefully(self, state: ContextState, address: str, body: Any, options: DeliveryOptions) -> Reply:
        if not self._knows(address):
            awaited = awaited_reply(self._contexts.numbers, address)
            if awaited is not None:
                return self._answer_and_await(state, awaited, body, options)
        reply = reply_to(self, state.executor, address)
        # The message first: a body that cannot be sent raises here, and then no wait is left behind.
        message = self._message(address, body, options, is_send=True, reply=reply)
        state.queue_for(options.timeout_ms).park(reply)
        try:
            self._route(message, options, self._send_here if options.local_only else self._send)
        # Otherwise each refused request would leave a wait behind, until its timeout.
        except LimitExceeded:
            reply.cancel()
            raise
        return reply

    def _send(self, message: Message) -> None:
        address: str = message._address  # type: ignore[assignment]  # a reply has another way
        self._give(message, self._rounds.get(address) or self._registrations.round_of(address))

    def _send_here(self, message: Message) -> None:
        """Send to a consumer of this process."""
        self._give(message, self._registrations.narrow_round_of(message.address, Among.OF_PROCESS))

    def _give(self, message: Message, around: Iterator[Turn] | None) -> None:
        if around is None:
            # At once, as in Vert.x: a requester learns nothing more by waiting for its timeout.
            if message._reply is not None:
                message._reply.fail_without_handlers()
            return
        deliver, context = next(around)
        # `deliver` does not look for these two, so that plain messages do not pay for the checks.
        if message._credit is not None or message._variables is not None:
            deliver = deliver.__self__.take_carefully  # type: ignore[attr-defined]  # a method of the consumer
        context.run(deliver, message)

    def _publish(self, message: Message) -> None:
        deliver_copies(message, self._consumers.get(message.address, ()), self._codecs)

    def _publish_here(self, message: Message) -> None:
        """Publish to the consumers of this process."""
        deliver_copies(message, self._registrations.receivers_of(message.address, Among.OF_PROCESS), self._codecs)

    def _answer_and_await(self, state: ContextState, reply: Reply, body: Any, options: DeliveryOptions) -> Reply:
        another = reply_to(self, state.executor, reply.address)
        message = self._message(reply._number, body, options, is_send=True, reply=another)
        state.queue_for(options.timeout_ms).park(another)
        # Its requester may have timed out meanwhile: nobody would ever answer the reply to the reply.
        if reply.is_waiting:
            deliver_reply(self, reply, message)
        else:
            text = f"nobody awaits a reply at {reply.address!r} any more"
            another.fail(ReplyError(FailureType.NO_HANDLERS, BUILT_IN_CODE, text))
        return another
