"""Interceptors, by the names of Vert.x's scenarios: order, dropping, replies, errors, changes."""

import asyncio
from collections.abc import Callable

import pytest
from tests.unit.bus.scenes import Seen, turns

from hutong.bus import Delivery, DeliveryOptions, EventBus, FailureType, Message, Reply, ReplyError
from hutong.foundation.errors import LimitExceeded


def noting(seen: list[object], name: object) -> object:
    def intercept(delivery: Delivery) -> None:
        seen.append(name)
        delivery.next()

    return intercept


async def test_interceptors_run_in_order(bus: EventBus) -> None:
    steps: list[object] = []
    for number in range(3):
        bus.add_outbound_interceptor(noting(steps, f"out {number}"))  # type: ignore[arg-type]
        bus.add_inbound_interceptor(noting(steps, f"in {number}"))  # type: ignore[arg-type]
    bus.consumer("address", lambda message: steps.append(message.body))
    bus.send("address", "handled")
    assert steps == ["out 0", "out 1", "out 2"], "outbound ones run in the sender"
    await turns()
    assert steps[3:] == ["in 0", "in 1", "in 2", "handled"]
    bus.publish("address", "published")
    await turns()
    assert steps[7:] == [*steps[:6], "published"]


@pytest.mark.parametrize("side", ["outbound", "inbound"])
async def test_no_next_drops_the_message(bus: EventBus, side: str) -> None:
    seen = Seen()

    def drop(delivery: Delivery) -> None:
        if delivery.body == "drop":
            return
        delivery.next()

    getattr(bus, f"add_{side}_interceptor")(drop)
    bus.consumer("address", seen)
    bus.send("address", "drop")
    bus.send("address", "keep")
    await seen.wait_for(1)
    assert seen.items == ["keep"]
    with pytest.raises(ReplyError) as caught:
        await bus.request("address", "drop", DeliveryOptions(timeout=0.01))
    assert caught.value.failure_type is FailureType.TIMEOUT


async def test_inbound_on_reply(bus: EventBus) -> None:
    await see_replies(bus, bus.add_inbound_interceptor)


async def test_outbound_on_reply(bus: EventBus) -> None:
    await see_replies(bus, bus.add_outbound_interceptor)


async def see_replies(bus: EventBus, add: Callable[[Callable[[Delivery], object]], None]) -> None:
    bodies: list[object] = []

    def look(delivery: Delivery) -> None:
        assert delivery.is_send
        bodies.append(delivery.body)
        delivery.next()

    add(look)
    bus.consumer("address", lambda message: message.reply("reply"))
    assert (await bus.request("address", "request")).body == "reply"
    assert bodies == ["request", "reply"]
    bus.consumer("failing", lambda message: message.fail(3, "text"))
    with pytest.raises(ReplyError, match="text"):
        await bus.request("failing", "request")
    assert isinstance(bodies[3], ReplyError)


@pytest.mark.parametrize("side", ["outbound", "inbound"])
async def test_exception_in_interceptor_and_a_later_next(
    bus: EventBus, side: str, caplog: pytest.LogCaptureFixture, failures: list[BaseException]
) -> None:
    seen = Seen()
    kept: list[Delivery] = []

    def fail(delivery: Delivery) -> None:
        kept.append(delivery)
        raise RuntimeError("broken interceptor")

    getattr(bus, f"add_{side}_interceptor")(fail)
    bus.consumer("address", seen)
    bus.send("address", "body")
    await turns()
    assert seen.items == []
    assert "broken interceptor" in caplog.text or [str(failure) for failure in failures] == ["broken interceptor"]
    await asyncio.to_thread(kept[0].next)
    kept[0].next()
    assert await seen.wait_for(1) == ["body"]
    await turns()
    assert seen.items == ["body"], "a second next does nothing"


@pytest.mark.parametrize("side", ["outbound", "inbound"])
@pytest.mark.parametrize("broken", ["question", "answer"])
async def test_an_interceptor_that_raises_fails_a_request_at_once(bus: EventBus, side: str, broken: str) -> None:
    kept: list[Delivery] = []

    def fail(delivery: Delivery) -> None:
        if delivery.body == broken:
            kept.append(delivery)
            raise RuntimeError("secret")
        delivery.next()

    seen: list[object] = []

    def answer(message: Message) -> str:
        seen.append(message.body)
        return "answer"

    getattr(bus, f"add_{side}_interceptor")(fail)
    bus.consumer("address", answer)
    with pytest.raises(ReplyError, match="the message cannot be carried: RuntimeError") as caught:
        await bus.request("address", "question", DeliveryOptions(timeout=86_400))
    assert caught.value.failure_type is FailureType.ERROR
    assert "secret" not in caught.value.message
    before = list(seen)
    kept[0].next()
    await turns()
    assert seen == before, "its requester was told that it goes no further"


async def test_an_interceptor_that_raises_fails_the_request_that_a_reply_is(bus: EventBus) -> None:
    def fail(delivery: Delivery) -> None:
        if delivery.body == "and you?":
            raise RuntimeError("broken interceptor")
        delivery.next()

    asked: list[Reply] = []
    bus.add_inbound_interceptor(fail)
    bus.consumer("address", lambda message: asked.append(message.reply_and_request("and you?")))
    with pytest.raises(ReplyError, match="RuntimeError"):
        await bus.request("address", None, DeliveryOptions(timeout=86_400))
    with pytest.raises(ReplyError, match="RuntimeError"):
        await asked[0]


async def test_an_interceptor_that_raises_behind_next_changes_nothing(bus: EventBus) -> None:
    def fail(delivery: Delivery) -> None:
        delivery.next()
        raise RuntimeError("broken interceptor")

    bus.add_outbound_interceptor(fail)
    bus.consumer("address", lambda message: "answer")
    assert (await bus.request("address")).body == "answer"


async def test_a_recipient_that_takes_no_more_fails_a_request_behind_an_interceptor(
    bus: EventBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus.add_outbound_interceptor(lambda delivery: delivery.next())
    context = bus.consumer("address", lambda message: "answer").context
    monkeypatch.setattr("hutong.runtime.contexts.contexts.QUEUED_MAX", len(context.queue))
    with pytest.raises(ReplyError, match="queued_max"):
        await bus.request("address", None, DeliveryOptions(timeout=86_400))


async def test_interceptors_may_change_a_message(bus: EventBus) -> None:
    def stamp(delivery: Delivery) -> None:
        delivery.message.headers.add("stamp", "1")
        delivery.message.body = f"changed {delivery.message.body}"
        delivery.next()

    bus.add_outbound_interceptor(stamp)
    seen: list[Message] = []
    for _ in range(2):
        bus.consumer("address", seen.append)
    bus.publish("address", "body")
    await turns()
    assert [(message.body, message.headers.get("stamp")) for message in seen] == [("changed body", "1")] * 2
    assert seen[0].headers is not seen[1].headers


async def test_interceptors_that_are_removed_see_nothing_more(bus: EventBus) -> None:
    steps: list[object] = []
    outbound, inbound = noting(steps, "out"), noting(steps, "in")
    bus.add_outbound_interceptor(outbound)  # type: ignore[arg-type]
    bus.add_inbound_interceptor(inbound)  # type: ignore[arg-type]
    seen = Seen()
    bus.consumer("address", seen)
    bus.send("address", 1)
    await seen.wait_for(1)
    bus.remove_outbound_interceptor(outbound)  # type: ignore[arg-type]
    bus.remove_inbound_interceptor(inbound)  # type: ignore[arg-type]
    bus.remove_inbound_interceptor(inbound)  # type: ignore[arg-type]
    bus.send("address", 2)
    await seen.wait_for(2)
    assert steps == ["out", "in"]


async def test_a_request_whose_handler_is_a_coroutine_passes_interceptors(bus: EventBus) -> None:
    async def answer(message: Message) -> str:
        await asyncio.sleep(0)
        return f"answer to {message.body}"

    async def later(delivery: Delivery) -> None:
        delivery.next()

    loop = asyncio.get_running_loop()
    bus.add_inbound_interceptor(lambda delivery: loop.call_soon(delivery.next))
    bus.consumer("address", answer)
    assert (await bus.request("address", "q")).body == "answer to q"


async def test_interceptors_are_bounded_and_callable(bus: EventBus) -> None:
    with pytest.raises(TypeError, match="not callable"):
        bus.add_inbound_interceptor("no")  # type: ignore[arg-type]
    for _ in range(64):
        bus.add_outbound_interceptor(lambda delivery: delivery.next())
    with pytest.raises(LimitExceeded, match="interceptors_max"):
        bus.add_outbound_interceptor(lambda delivery: delivery.next())
