"""Carries out on an event bus what the session of one bridge client decides.

Strategy: the transport gives a client's frames (`receive`) and takes frames away (`Outlet`). Everything happens in the
bridge's context, on its loop.

What a client owes is parked under an owner that ends with it: the messages it may still answer, the time it may take to
read. Its own requests are promises of the bus, cancelled when it goes; its registrations are unregistered. So a client
that vanishes leaves nothing, and a sender that waits for its answer gets a failure at once.

Decides only when to give up waiting; knows no sockets.
"""

import asyncio
import inspect
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import msgspec

from hutong.bus.bridge import messages
from hutong.bus.bridge.figures import BridgeFigures
from hutong.bus.bridge.hooks import Authenticator, BridgeEvent, BridgePeer, EventHook, EventKind, Verdict
from hutong.bus.bridge.limits import BridgeLimits
from hutong.bus.bridge.machine import BridgeSession
from hutong.bus.bridge.messages import Event, Instruction
from hutong.bus.bridge.permissions import Permissions
from hutong.bus.bus import EventBus
from hutong.bus.delivery.consumer import Consumer
from hutong.bus.envelope.headers import Headers
from hutong.bus.envelope.message import Message
from hutong.bus.envelope.reply import Reply
from hutong.bus.errors import BUILT_IN_CODE, HANDLER_RAISED, FailureType, HandlerRaised, ReplyError, carrying_failed
from hutong.bus.options import DEFAULT, TIMEOUT_DEFAULT, DeliveryOptions
from hutong.bus.waiting.promise import Promise
from hutong.foundation.clock import Clock
from hutong.foundation.errors import Expired, HutongError, OwnerGone, UsageError
from hutong.foundation.waiting.table import Owner, ParkedWait, WaitTable
from hutong.runtime.contexts.contexts import Context
from hutong.wire.buffer import Buffer
from hutong.wire.vertx.client_frames import ClientFrame, FrameKind, Malformed, decode
from hutong.wire.vertx.codes import Code, Dialect
from hutong.wire.vertx.server_frames import FrameEncoder

Answer = tuple[ClientFrame, bool]
"""A client's answer, and whether it asks back."""


Received = tuple[Any, tuple[tuple[str, str], ...]]
"""Body and headers of a message for the client."""


class Outlet(Protocol):
    """The services of a transport for one client. None is called once the client has `ended`."""

    def write(self, frame: bytes) -> None:
        """Send one frame, behind those before it."""

    def resume(self) -> None:
        """After `receive` has returned False: give it that frame again, soon, and those behind it."""

    def close(self) -> None:
        """End the connection once what was written is sent."""


@dataclass(slots=True)
class BridgeServices:
    """The services that all clients of one bridge share."""

    bus: EventBus
    context: Context
    dialect: Dialect
    permissions: Permissions
    limits: BridgeLimits
    clock: Clock
    replies_owed: WaitTable[Answer]
    slow_clients: WaitTable[None]
    authenticator: Authenticator | None
    hook: EventHook | None
    figures: BridgeFigures
    encoder: FrameEncoder | None  # None where the hook may change bodies


class ConnectedClient:
    """One client, from its connection to `ended`. Made by `Bridge.connect`; all calls in the bridge's context."""

    def __init__(self, services: BridgeServices, peer: BridgePeer, outlet: Outlet) -> None:
        self.peer = peer
        self.session = BridgeSession(services.dialect, services.permissions, services.limits, services.encoder)
        self._services = services
        self._outlet = outlet
        self._owner = Owner()
        self._consumers: dict[int, Consumer] = {}
        self._requests: dict[Reply, None] = {}  # oldest first
        self._is_asking = False  # the authenticator has not decided yet
        self._slow: ParkedWait[None] | None = None  # while it does not read
        self._unsent_bytes = 0  # written since then: answers, which no pause of registrations stops

    @property
    def has_ended(self) -> bool:
        return self._owner.has_ended

    # Called by the transport.

    def receive(self, data: Buffer | str) -> bool:
        """One frame of the client. False: not now; keep it, and those behind it, until `Outlet.resume`."""
        # Frames stay in order: while the authenticator decides on one, the transport keeps the rest.
        if self._is_asking:
            return False
        services = self._services
        services.figures.frames_in_total += 1
        frame = decode(data, services.dialect)
        # Neither reaches the bus, so neither needs authentication.
        if isinstance(frame, Malformed) or frame.kind is FrameKind.PING:
            self._feed_session(frame)
        elif services.authenticator is None:
            self._pass(frame)
        else:
            self._ask(services.authenticator, frame)
        return True

    def frame_too_large(self) -> None:
        """The client began a frame that the transport does not take: send an error and close its connection."""
        self._feed_session(messages.FrameTooLarge())

    def sending_changed(self, is_paused: bool) -> None:
        """True while more is unsent to this client than the bound."""
        # Only a change: a second pause would start a second deadline.
        if is_paused is not self.session.is_paused and not self.has_ended:
            self._feed_session(messages.SendingPaused() if is_paused else messages.SendingResumed())

    def ended(self) -> None:
        """Its connection is gone: leave nothing behind. A second call does nothing."""
        if self.has_ended:
            return
        services = self._services
        # Fails the replies that this client owes, so that their requesters do not wait for the timeout.
        self._owner.end(OwnerGone("the bridge client that was asked has gone"))
        consumers, self._consumers = self._consumers, {}
        for consumer in consumers.values():
            consumer.unregister()
        services.figures.registrations -= len(consumers)
        services.figures.clients -= 1
        requests, self._requests = self._requests, {}
        for reply in requests:
            reply.cancel()
        self.happens(BridgeEvent(EventKind.CLOSED, self.peer))

    # Authentication, and the event hook.

    def happens(self, event: BridgeEvent) -> bool:
        """Ask the event hook, if there is one; True lets the event pass."""
        hook = self._services.hook
        if hook is None:
            return True
        try:
            return hook(event)
        except Exception as error:  # noqa: BLE001  # a user's code: reported, and the event is blocked
            self._services.context.fail(error)
            return False

    def _ask(self, authenticator: Authenticator, frame: ClientFrame) -> None:
        try:
            verdict = authenticator(self.peer, frame)
        except Exception as error:  # noqa: BLE001  # a user's code, as above
            self._services.context.fail(error)
            self._feed_session(messages.Denied(frame, Code.AUTH_ERROR))
            return
        # A verdict at once needs no task, and the client's next frame need not wait.
        if isinstance(verdict, Verdict):
            self._judged(frame, verdict)
        elif inspect.isawaitable(verdict):
            self._is_asking = True
            self._services.context.run(partial(self._await_verdict, frame), verdict)
        else:
            # A fault of the authenticator. The frame is refused: a wrong type must never open the bus.
            self._services.context.fail(TypeError(f"an authenticator returns a Verdict, not {type(verdict).__name__}"))
            self._feed_session(messages.Denied(frame, Code.AUTH_ERROR))

    async def _await_verdict(self, frame: ClientFrame, coming: Awaitable[Verdict]) -> None:
        """Continue with the frame once its verdict is there; then with later frames."""
        try:
            # An authenticator that never answers must not hold the connection for ever.
            async with asyncio.timeout(self._services.limits.reply_timeout_ms / 1000):
                verdict = await coming
        except Exception as error:  # noqa: BLE001  # a user's code, as above
            self._services.context.fail(error)
            verdict = None
        self._is_asking = False
        # The client may have disconnected meanwhile: nothing may reach the bus for it now.
        if self.has_ended:
            return
        if isinstance(verdict, Verdict):
            self._judged(frame, verdict)
        else:
            self._feed_session(messages.Denied(frame, Code.AUTH_ERROR))
        self._outlet.resume()

    def _judged(self, frame: ClientFrame, verdict: Verdict) -> None:
        if verdict.value is None:
            self._pass(frame)
        else:
            self._feed_session(messages.Denied(frame, verdict.value))

    def _pass(self, frame: ClientFrame) -> None:
        """Feed the frame to the session, unless the event hook blocks it; the hook may change it."""
        if self._services.hook is not None:
            event = BridgeEvent(EventKind(frame.kind.value), self.peer, frame.address, frame.body, frame.headers)
            if not self.happens(event):
                # The two bridges of Vert.x have different words for it.
                code = Code.BLOCKED if self._services.dialect is Dialect.TCP else Code.REJECTED
                self._feed_session(messages.Denied(frame, code))
                return
            # The hook may have changed the event.
            frame = msgspec.structs.replace(frame, address=event.address, body=event.body, headers=event.headers)
        self._feed_session(frame)

    # Instructions of the session.

    def _feed_session(self, event: Event, message: Message | None = None) -> None:
        """Feed an event to the session, and execute its instructions. `message` is the event's bus message, if any."""
        # In order: OweReply comes before the Write that gives the client the reply address.
        for instruction in self.session.handle(event):
            self._carry_out(instruction, message)

    def _carry_out(self, instruction: Instruction, message: Message | None) -> None:
        # First, since nearly every instruction is one.
        if isinstance(instruction, messages.Write):
            self._write(instruction.frame, instruction.code)
            return
        match instruction:
            case messages.BridgeRequest(frame):
                self._send(frame, is_request=True)
            case messages.Send(frame):
                self._send(frame, is_request=False)
            case messages.BridgeReply(frame, is_request):
                # Resumes `_answer`. The peer in the key keeps clients from answering each other's messages.
                self._services.replies_owed.resume((self.peer.id, frame.address), (frame, is_request))
            case messages.OweReply(reply_address):
                assert message is not None
                self._owe(message, reply_address)
            case messages.FailDelivery(_, text):
                # The message never reached the client, so its sender must not wait for the timeout.
                assert message is not None
                message.fail(BUILT_IN_CODE, text)
            case _:
                self._arrange(instruction)

    def _arrange(self, instruction: Instruction) -> None:
        match instruction:
            case messages.Register(number, address):
                self._register(number, address)
            case messages.Unregister(number):
                consumer = self._consumers.pop(number)
                consumer.unregister()
                self._services.figures.registrations -= 1
            case messages.PauseAll():
                self._pause()
            case messages.ResumeAll():
                self._resume()
            case messages.Close():
                self._outlet.close()

    def _write(self, frame: bytes, code: Code | None) -> None:
        figures = self._services.figures
        figures.frames_out_total += 1
        if code is not None:
            figures.refused_total[code] += 1
        self._outlet.write(frame)
        # A client that sends requests without reading the answers would fill memory without any registration.
        if self.session.is_paused:
            self._unsent_bytes += len(frame)
            if self._unsent_bytes > self._services.limits.unsent_bytes_max:
                self._feed_session(messages.TooSlow())

    # Messages of the client.

    def _send(self, frame: ClientFrame, *, is_request: bool) -> None:
        bus = self._services.bus
        try:
            if is_request:
                self._await_reply(frame, bus.request(frame.address, frame.body, _options(frame)))
            elif frame.kind is FrameKind.PUBLISH:
                stored = bus.publish(frame.address, frame.body, _options(frame))
                # A durable address gives a promise, and only a failure is reported. Others give nothing to wait for.
                if isinstance(stored, Promise):
                    stored.then(partial(self._stored, frame))
            else:
                bus.send(frame.address, frame.body, _options(frame))
        except Exception as error:  # noqa: BLE001  # a bound of the bus, or a codec: a user's code, as above
            self._not_sent(frame, is_request, error)

    def _stored(self, frame: ClientFrame, outcome: object) -> None:
        """Handle the outcome of a publication at a durable address. One that is stored needs no report."""
        if isinstance(outcome, HutongError) and not self.has_ended:
            self._feed_session(messages.Denied(frame, Code.NOT_DELIVERED))

    def _answer(self, message: Message, outcome: Answer | HutongError) -> None:
        """Handle the outcome of a message that this client was to answer."""
        if isinstance(outcome, HutongError):
            # The client has gone, or the bridge has closed: the requester on the bus gets the reason at once.
            if not isinstance(outcome, Expired):
                message.fail(BUILT_IN_CODE, str(outcome))
            # Its time is over. The requester has a timeout of its own; here only the address is forgotten.
            elif message.reply_address is not None:
                self._feed_session(messages.ReplyExpired(message.reply_address))
            return
        frame, is_request = outcome
        try:
            if is_request:
                self._await_reply(frame, message.reply_and_request(frame.body, _options(frame)))
            elif frame.failure is not None:
                message.fail(*frame.failure)
            else:
                message.reply(frame.body, _options(frame))
        except Exception as error:  # noqa: BLE001  # as above
            # The requester on the bus must not wait for a reply that cannot be encoded.
            if message._reply is not None:
                message._reply.fail(carrying_failed("the reply", error))
            self._not_sent(frame, is_request, error)

    def _not_sent(self, frame: ClientFrame, is_request: bool, error: Exception) -> None:
        if not isinstance(error, HutongError | TypeError | ValueError):  # its text was not written for clients
            self._services.context.fail(error)
            error = UsageError("a codec failed")
        # A request fails at its reply address, where the client's library waits; anything else by a plain error.
        if is_request:
            self._request_failed(frame, ReplyError(FailureType.ERROR, BUILT_IN_CODE, str(error)))
        else:
            self._feed_session(messages.Denied(frame, Code.NOT_DELIVERED))

    def _await_reply(self, frame: ClientFrame, reply: Reply) -> None:
        self._requests[reply] = None
        reply.then(partial(self._replied, frame, reply))

    def _replied(self, frame: ClientFrame, reply: Reply, outcome: Message | HutongError) -> None:
        self._requests.pop(reply, None)
        # `ended` cancels the requests, but a reply may be on its way to this context already.
        if self.has_ended:
            return
        if not isinstance(outcome, Message):
            self._request_failed(frame, outcome)
            return
        assert frame.reply_address is not None
        received = self._received(frame.reply_address, outcome)
        if received is None:
            self._request_failed(frame, ReplyError(FailureType.ERROR, BUILT_IN_CODE, Code.BLOCKED))
            return
        body, headers = received
        self._feed_session(
            messages.Answered(frame.address, frame.reply_address, body, headers, outcome.reply_address), outcome
        )

    def _request_failed(self, frame: ClientFrame, error: HutongError) -> None:
        assert frame.reply_address is not None
        if not isinstance(error, ReplyError):
            error = ReplyError(FailureType.ERROR, BUILT_IN_CODE, str(error))
        # The text of a handler's exception is for the log, not for clients.
        text = HANDLER_RAISED if isinstance(error, HandlerRaised) else error.message
        self._feed_session(
            messages.AnswerFailed(frame.address, frame.reply_address, error.failure_code, error.failure_type.name, text)
        )

    # Messages to the client, and replies that it owes.

    def _register(self, number: int, address: str) -> None:
        services = self._services
        try:
            consumer = services.bus.consumer(
                address,
                partial(self._delivered, number),
                context=services.context,
                max_buffered_messages=services.limits.buffered_messages_max,
            )
        except (HutongError, TypeError, ValueError):  # a bound of the bus, an address that is its own or durable
            self._feed_session(messages.RegistrationFailed(number))
            return
        consumer.discard_handler = partial(self._discarded, number)
        # Without a hook nobody changes bodies, so all clients of an address share one copy.
        consumer.shares_bodies = services.hook is None
        # `_pause` has run before this consumer existed.
        if self.session.is_paused:
            consumer.pause()
        self._consumers[number] = consumer
        services.figures.registrations += 1

    def _delivered(self, number: int, message: Message) -> None:
        if self.has_ended:
            return
        received = self._received(message.address, message)
        if received is None:
            # The hook hides the message from the client; its requester is refused instead of left waiting.
            message.fail(BUILT_IN_CODE, Code.BLOCKED)
            return
        body, headers = received
        self._feed_session(messages.Delivered(number, body, headers, message.reply_address, message.is_send), message)

    def _received(self, address: str, message: Message) -> Received | None:
        """The message's body and headers as the event hook leaves them, None where it blocks it."""
        if self._services.hook is None:
            return message.body, message.header_pairs
        event = BridgeEvent(EventKind.RECEIVE, self.peer, address, message.body, message.header_pairs)
        return (event.body, event.headers) if self.happens(event) else None

    def _owe(self, message: Message, reply_address: str) -> None:
        services = self._services
        deadline_ms = services.clock.monotonic_ms() + services.limits.reply_timeout_ms
        key = (self.peer.id, reply_address)
        try:
            services.replies_owed.park(key, partial(self._answer, message), deadline_ms=deadline_ms, owner=self._owner)
        except HutongError as error:  # all clients together owe too many
            message.fail(BUILT_IN_CODE, str(error))
            self._feed_session(messages.ReplyExpired(reply_address))

    # A client that does not read.

    def _pause(self) -> None:
        services = self._services
        self._unsent_bytes = 0
        for consumer in self._consumers.values():
            consumer.pause()
        deadline_ms = services.clock.monotonic_ms() + services.limits.slow_client_ms_max
        # What is unsent and buffered costs memory, so a client that never reads again is disconnected.
        self._slow = services.slow_clients.park(self, self._too_slow, deadline_ms=deadline_ms, owner=self._owner)

    def _resume(self) -> None:
        if self._slow is not None:
            self._slow.abandon()
            self._slow = None
        for consumer in self._consumers.values():
            consumer.resume()

    def _too_slow(self, outcome: HutongError | None) -> None:
        if isinstance(outcome, Expired):
            self._feed_session(messages.TooSlow())

    def _discarded(self, number: int, _: Message) -> None:
        # A client that missed messages must know it: its connection is closed. That may be one that reads again, while
        # its buffer is emptied. After an unregistration nobody misses them.
        if number in self._consumers and not self.has_ended:
            self._feed_session(messages.TooSlow())


def _options(frame: ClientFrame) -> DeliveryOptions:
    # The bus compares with the very object DEFAULT for its fast path.
    if not frame.headers and frame.timeout_ms is None and frame.codec_name is None and not frame.local_only:
        return DEFAULT
    return DeliveryOptions(
        TIMEOUT_DEFAULT if not frame.timeout_ms else frame.timeout_ms / 1000,
        Headers(frame.headers) if frame.headers else None,
        frame.codec_name,
        frame.local_only,
    )
