"""Requests and replies, by the names of Vert.x's scenarios: typed failures, time-outs, replies to replies."""

import asyncio
import gc
from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.unit.bus.scenes import Seen, turns

from hutong.bus import DeliveryOptions, EventBus, FailureType, Headers, Message, ReplyError

SOON = DeliveryOptions(timeout=0.01)


async def test_request_and_reply(bus: EventBus) -> None:
    bus.consumer("echo", lambda message: message.reply(message.body))
    for body in (None, True, 1, 1 << 80, 0.5, "text", b"bytes", {"a": [1, {"b": None}]}, ["x", 2]):
        reply = await bus.request("echo", body)
        assert reply.body == body
        assert type(reply.body) is type(body)
        assert reply.is_send


async def test_send_with_timeout_no_handlers(bus: EventBus) -> None:
    with pytest.raises(ReplyError, match="no handlers for address 'nowhere'") as caught:
        await bus.request("nowhere", 1, SOON)
    assert (caught.value.failure_type, caught.value.failure_code) == (FailureType.NO_HANDLERS, -1)


async def test_send_with_timeout_no_reply(bus: EventBus) -> None:
    bus.consumer("silent", lambda message: None)
    with pytest.raises(ReplyError, match="no reply from 'silent' came in time") as caught:
        await bus.request("silent", 1, SOON)
    assert (caught.value.failure_type, caught.value.failure_code) == (FailureType.TIMEOUT, -1)


async def test_reply_after_timeout(bus: EventBus, failures: list[BaseException]) -> None:
    requests: list[Message] = []
    bus.consumer("late", requests.append)
    with pytest.raises(ReplyError):
        await bus.request("late", 1, SOON)
    requests[0].reply("too late")
    requests[0].fail(5, "too late")
    bus.send(requests[0].reply_address or "", "too late")
    await turns()
    assert failures == []


async def test_the_first_reply_counts(bus: EventBus) -> None:
    def twice(message: Message) -> None:
        message.reply(1)
        message.reply(2)
        message.fail(3)

    bus.consumer("twice", twice)
    assert (await bus.request("twice")).body == 1


async def test_recipient_failure(bus: EventBus) -> None:
    bus.consumer("failing", lambda message: message.fail(42, "no such thing"))
    with pytest.raises(ReplyError, match="no such thing") as caught:
        await bus.request("failing")
    assert caught.value.failure_type is FailureType.RECIPIENT_FAILURE
    assert (caught.value.failure_code, caught.value.message) == (42, "no such thing")


async def test_a_handler_that_raises_fails_its_request_at_once(bus: EventBus, failures: list[BaseException]) -> None:
    def broken(message: Message) -> None:
        raise KeyError(message.body)

    async def broken_later(message: Message) -> None:
        await asyncio.sleep(0)
        raise KeyError(message.body)

    bus.consumer("broken", broken)
    bus.consumer("broken later", broken_later)
    for address in ("broken", "broken later"):
        with pytest.raises(ReplyError, match="KeyError: 'what'") as caught:
            await bus.request(address, "what")
        assert (caught.value.failure_type, caught.value.failure_code) == (FailureType.RECIPIENT_FAILURE, -1)
        bus.send(address, "what")
    await turns()
    assert [type(failure) for failure in failures] == [KeyError] * 4


async def test_a_handler_that_raises_a_reply_error_fails_its_request_with_it(bus: EventBus) -> None:
    def refuse(message: Message) -> None:
        raise ReplyError(FailureType.RECIPIENT_FAILURE, 403, "not for you")

    bus.consumer("refusing", refuse)
    with pytest.raises(ReplyError, match="not for you") as caught:
        await bus.request("refusing")
    assert caught.value.failure_code == 403


class Odd:
    """A body whose codec cannot transform it."""


class OddCodec:
    name = "odd"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def encode(self, body: Odd) -> bytes:
        return b""

    def decode(self, data: bytes) -> Odd:
        return Odd()

    def transform(self, body: Odd) -> Odd:
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError("secret"), AttributeError("secret"), ValueError("too long")])
@pytest.mark.parametrize("is_later", [False, True])
async def test_a_reply_whose_codec_raises_fails_its_request_at_once(
    bus: EventBus, failures: list[BaseException], error: Exception, is_later: bool
) -> None:
    async def later(message: Message) -> Odd:
        await asyncio.sleep(0)
        return Odd()

    bus.register_codec(OddCodec(error), default_for=Odd)
    bus.consumer("odd", later if is_later else lambda message: Odd())
    with pytest.raises(ReplyError, match="the reply cannot be carried: ") as caught:
        await bus.request("odd", None, DeliveryOptions(timeout=86_400))
    assert caught.value.failure_type is FailureType.ERROR
    assert "secret" not in caught.value.message
    await turns()
    assert failures == [error]


async def test_a_discard_handler_that_raises_leaves_no_request_behind(
    bus: EventBus, failures: list[BaseException]
) -> None:
    def raising(message: Message) -> None:
        raise RuntimeError("no")

    consumer = bus.consumer("paused")
    consumer.discard_handler = raising
    ended: list[None] = []
    consumer.end_handler = lambda: ended.append(None)
    replies = [bus.request("paused", number, DeliveryOptions(timeout=86_400)) for number in range(3)]
    await turns()
    consumer.unregister()
    for reply in replies:
        with pytest.raises(ReplyError, match="it has unregistered"):
            await reply
    assert (len(failures), ended) == (3, [None])


async def test_what_a_handler_returns_is_the_reply(bus: EventBus, failures: list[BaseException]) -> None:
    async def slowly(message: Message) -> object:
        await asyncio.sleep(0)
        return {"sum": sum(message.body)}

    def replied(message: Message) -> object:
        message.reply("by hand")
        return "returned"

    bus.consumer("sum", lambda message: sum(message.body))
    bus.consumer("slowly", slowly)
    bus.consumer("replied", replied)
    bus.consumer("strange", lambda message: object())
    assert (await bus.request("sum", [1, 2, 3])).body == 6
    assert (await bus.request("slowly", [1, 2])).body == {"sum": 3}
    assert (await bus.request("replied")).body == "by hand"
    with pytest.raises(ReplyError, match="no codec") as caught:
        await bus.request("strange")
    assert caught.value.failure_type is FailureType.ERROR
    assert len(failures) == 1
    for address in ("sum", "replied", "strange"):
        bus.send(address, [1])
    await turns()
    assert len(failures) == 1, "nobody awaits what is returned to a send"


async def test_a_promise_that_a_handler_returns_is_no_reply(bus: EventBus) -> None:
    bus.consumer("inner", lambda message: message.reply("inner"))

    def delegate(message: Message) -> object:
        inner = bus.request("inner")
        inner.then(lambda outcome: message.reply(f"outer of {outcome.body}") if isinstance(outcome, Message) else None)
        return inner

    bus.consumer("outer", delegate)
    assert (await bus.request("outer")).body == "outer of inner"


async def test_reply_to_reply(bus: EventBus) -> None:
    steps: list[object] = []

    async def answer(message: Message) -> None:
        steps.append(message.body)
        second = await message.reply_and_request("first reply")
        steps.append(second.body)
        second.reply("third reply")

    bus.consumer("talk", answer)
    first = await bus.request("talk", "request")
    assert first.body == "first reply"
    third = await first.reply_and_request("second request")
    assert third.body == "third reply"
    assert third.reply_address is None
    assert steps == ["request", "second request"]


async def test_reply_to_a_reply_that_nobody_awaits(bus: EventBus) -> None:
    requests: list[Message] = []
    bus.consumer("late", requests.append)
    with pytest.raises(ReplyError):
        await bus.request("late", options=SOON)
    with pytest.raises(ReplyError) as caught:
        await requests[0].reply_and_request("too late")
    assert caught.value.failure_type is FailureType.NO_HANDLERS


async def test_reply_to_send_with_no_reply_handler(bus: EventBus) -> None:
    await reply_to_what_awaits_none(bus, bus.send)


async def test_reply_to_publish(bus: EventBus) -> None:
    await reply_to_what_awaits_none(bus, bus.publish)


async def reply_to_what_awaits_none(bus: EventBus, call: Callable[[str, object], object]) -> None:
    seen = Seen()

    def reply(message: Message) -> None:
        assert message.reply_address is None
        message.reply("nobody")
        message.fail(1, "nobody")
        with pytest.raises(ValueError, match="nobody awaits a reply"):
            message.reply_and_request("nobody")
        seen(message)

    bus.consumer("address", reply)
    call("address", "body")
    assert await seen.wait_for(1) == ["body"]


async def test_replies_and_failures_leave_no_cycles(bus: EventBus) -> None:
    """Else the collector would have all the work that reference counting is there for."""
    bus.consumer("echo", lambda message: message.reply(message.body))
    bus.consumer("failing", lambda message: message.fail(1))
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            await bus.request("echo", {"a": 1}, DeliveryOptions(timeout=1))
            await bus.request("echo")
            for address in ("nowhere", "failing"):
                with suppress(ReplyError):
                    await bus.request(address)
        assert gc.collect() < 20, "less than one in four"
    finally:
        gc.enable()


async def test_a_reply_address_is_an_address(bus: EventBus) -> None:
    addresses: list[str | None] = []
    bus.consumer("address", lambda message: addresses.append(message.reply_address))
    reply = bus.request("address")
    await turns()
    address = addresses[0]
    assert address is not None
    assert address == reply.address
    bus.send(address, {"by": "address"}, DeliveryOptions(headers=Headers({"h": "1"})))
    message = await reply
    assert (message.body, message.headers.get("H"), message.address) == ({"by": "address"}, "1", address)


async def test_a_request_to_a_reply_address_is_a_reply_that_awaits_one(bus: EventBus) -> None:
    requests: list[Message] = []
    bus.consumer("address", requests.append)
    reply = bus.request("address")
    await turns()
    back = bus.request(requests[0].reply_address or "", "and you?")
    message = await reply
    message.reply("fine")
    assert (await back).body == "fine"
    with pytest.raises(ReplyError, match="no handlers"):
        await bus.request(requests[0].reply_address or "", "again")


@pytest.mark.parametrize("tail", ["", "x", "-1", "1.2", "9" * 19, "9" * 100, "\u0661", "1\x00"])
async def test_a_reply_address_that_never_was_leads_nowhere(bus: EventBus, tail: str) -> None:
    bus.send(f"__hutong.reply.{tail}", 1)
    bus.publish(f"__hutong.reply.{tail}", 1)
    with pytest.raises(ReplyError, match="no handlers"):
        await bus.request(f"__hutong.reply.{tail}", 1)
    with pytest.raises(ValueError, match="the bus's own"):
        bus.consumer(f"__hutong.reply.{tail}")


async def test_failing_by_address(bus: EventBus) -> None:
    def fail(message: Message) -> None:
        bus.send(message.reply_address or "", ReplyError(FailureType.RECIPIENT_FAILURE, 7, "by address"))

    bus.consumer("address", fail)
    with pytest.raises(ReplyError, match="by address") as caught:
        await bus.request("address")
    assert caught.value.failure_code == 7


async def test_a_request_that_is_cancelled_leaves_nothing(bus: EventBus) -> None:
    requests: list[Message] = []
    bus.consumer("silent", requests.append)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await bus.request("silent")
    assert bus.replies_waiting == 0
    requests[0].reply("nobody is there")
    reply = bus.request("silent")
    assert reply.cancel()
    assert not reply.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reply


async def test_replies_may_be_awaited_together_and_again(bus: EventBus) -> None:
    bus.consumer("echo", lambda message: message.reply(message.body))
    replies = await asyncio.gather(*[bus.request("echo", index) for index in range(100)])
    assert [reply.body for reply in replies] == list(range(100))
    reply = bus.request("echo", "again")
    assert (await asyncio.wait_for(reply, 30)) is (await reply)
    assert reply.done()
    assert reply.result().body == "again"


async def test_then_is_called_with_the_message_or_the_error(bus: EventBus) -> None:
    seen = Seen()
    bus.consumer("echo", lambda message: message.reply(message.body))
    bus.request("echo", 1).then(seen.note)
    bus.request("nowhere").then(seen.note)

    async def slowly(outcome: object) -> None:
        await asyncio.sleep(0)
        seen.note(outcome)

    bus.request("echo", 2).then(slowly)
    done = bus.request("echo", 3)
    await done
    done.then(seen.note)
    outcomes = await seen.wait_for(4)
    assert sorted(outcome.body for outcome in outcomes if isinstance(outcome, Message)) == [1, 2, 3]
    assert [item.failure_type for item in outcomes if isinstance(item, ReplyError)] == [FailureType.NO_HANDLERS]


async def test_blocking_the_loop_is_refused(bus: EventBus) -> None:
    bus.consumer("echo", lambda message: message.reply(message.body))
    reply = bus.request("echo")
    with pytest.raises(asyncio.InvalidStateError, match="await it"):
        reply.result()
    await reply


@pytest.mark.parametrize("is_cancelled_first", [True, False])
async def test_a_reply_says_whether_anybody_can_still_get_its_value(bus: EventBus, is_cancelled_first: bool) -> None:
    asked: list[Message] = []
    bus.consumer("address", asked.append)
    reply = bus.request("address")

    async def wait() -> Message:
        return await reply

    task = asyncio.ensure_future(wait())
    await turns()
    if is_cancelled_first:
        task.cancel()
    assert asked[0]._reply.resume(Message(0, "value")) is not is_cancelled_first
    if not is_cancelled_first:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    if not is_cancelled_first:
        assert (await reply).body == "value", "it may be asked any number of times"
