"""Safeguards of calls and of the event bus, each with a way to switch it off, for `simulation_ablations`."""

import dataclasses
from typing import Any, Final

import pytest

from hutong.bus.bridge.driver import ConnectedClient
from hutong.bus.bus import EventBus
from hutong.bus.delivery.consumer import Consumer
from hutong.bus.options import DEFAULT, DeliveryOptions
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.numbered import NumberedWait, Numbers
from hutong.foundation.waiting.table import ParkedWait
from hutong.remoting.channels.channel import Channel
from hutong.rpc.call import Outcome
from hutong.rpc.calling.caller import Caller
from hutong.rpc.calling.stream_reader import _Asking
from hutong.rpc.calling.transport import Transport
from hutong.rpc.delivery.caller.retry import Reliability, ReliableTransport, _Attempts
from hutong.rpc.errors import CallTimeout
from hutong.rpc.options import CallOptions, Delivery
from hutong.rpc.over_bus.temporary import Temporary
from hutong.rpc.remote.dialled import _CONNECTED, DialledTransport, _Held
from hutong.rpc.remote.outgoing import AwaitedAnswer


def gives_answers_in_the_order_of_calls(patch: pytest.MonkeyPatch) -> None:
    def take(numbers: Numbers, _number: int) -> NumberedWait[Any] | None:
        for generation in numbers._generations.values():
            for waiting in generation.waiting:
                return generation.waiting.pop(waiting)
        return None

    patch.setattr(Numbers, "take", take)


def sends_again_what_may_be_sent_once(patch: pytest.MonkeyPatch) -> None:
    def transport_for(caller: Caller, options: CallOptions) -> Transport:
        again = dataclasses.replace(options, delivery=Delivery.AT_LEAST_ONCE)
        return ReliableTransport(caller._make_reliable, caller.transport, again)  # type: ignore[arg-type]

    patch.setattr(Caller, "_transport_for", transport_for)


def forgets_doubts_of_earlier_attempts(patch: pytest.MonkeyPatch) -> None:
    def verdict(attempts: _Attempts) -> Outcome | HutongError:
        return attempts._refusal or attempts._doubt or CallTimeout()

    patch.setattr(_Attempts, "_verdict", verdict)


def tries_without_end(patch: pytest.MonkeyPatch) -> None:
    begin = _Attempts._begin_next_attempt

    def begin_another(attempts: _Attempts) -> None:
        attempts._retries_left += 1
        begin(attempts)

    patch.setattr(_Attempts, "_begin_next_attempt", begin_another)


def goes_on_after_the_first_answer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Attempts, "_settle", lambda _: None)


def answers_calls_that_were_abandoned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AwaitedAnswer, "abandon", lambda _: False)


def waits_for_a_connection_without_end(patch: pytest.MonkeyPatch) -> None:
    def park(transport: DialledTransport, held: _Held) -> ParkedWait[Channel]:
        transport._ensure_dialling()
        return transport.waiting.park(_CONNECTED, held.proceed)

    patch.setattr(DialledTransport, "_park", park)


def leaves_calls_between_two_attempts_to_themselves(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reliability, "close", lambda *_: None)


def leaves_calls_of_an_ended_connection_to_themselves(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Channel, "ended", lambda _: None)


def leaves_streams_of_ended_connections_open(patch: pytest.MonkeyPatch) -> None:
    def park(temporary: Temporary) -> None:
        around = temporary._surroundings
        due_ms = around.clock.monotonic_ms() + (around.idle_ms or 0)
        temporary._ticket = around.waits.park(temporary, temporary._woken, deadline_ms=due_ms)

    patch.setattr(Temporary, "_park", park)


def reads_on_after_a_lost_answer(patch: pytest.MonkeyPatch) -> None:
    answer = _Asking.answer

    async def answered(asking: _Asking) -> Outcome:
        while True:
            try:
                return await answer(asking)
            except CallTimeout:
                asking.ask()

    patch.setattr(_Asking, "answer", answered)


def hands_over_the_newest_message_first(patch: pytest.MonkeyPatch) -> None:
    resume = Consumer.resume

    def resume_from_the_end(consumer: Consumer) -> Consumer:
        consumer._buffer.reverse()
        return resume(consumer)

    patch.setattr(Consumer, "resume", resume_from_the_end)


def skips_messages_that_a_client_has_no_room_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConnectedClient, "_discarded", lambda *_: None)


def sends_to_all_listeners(patch: pytest.MonkeyPatch) -> None:
    def send(bus: EventBus, address: str, body: object = None, options: DeliveryOptions = DEFAULT) -> None:
        bus.publish(address, body, options)

    patch.setattr(EventBus, "send", send)


SAFEGUARDS: Final = (
    ("an answer ends the call whose number it has", gives_answers_in_the_order_of_calls),
    ("a call that may be carried out once is sent once", sends_again_what_may_be_sent_once),
    ("a doubt of one attempt outlasts refusals of others", forgets_doubts_of_earlier_attempts),
    ("attempts are counted", tries_without_end),
    ("the first answer ends a call and its attempts", goes_on_after_the_first_answer),
    ("an abandoned call has no end", answers_calls_that_were_abandoned),
    ("the wait for a connection is part of a call's time", waits_for_a_connection_without_end),
    ("calls between two attempts end with their client", leaves_calls_between_two_attempts_to_themselves),
    ("calls end with their connection", leaves_calls_of_an_ended_connection_to_themselves),
    ("streams end with their connection", leaves_streams_of_ended_connections_open),
    ("a stream fails with a lost answer", reads_on_after_a_lost_answer),
    ("messages that wait are handed over oldest first", hands_over_the_newest_message_first),
    ("a client that missed messages is closed", skips_messages_that_a_client_has_no_room_for),
    ("a message that is sent has one receiver", sends_to_all_listeners),
)
