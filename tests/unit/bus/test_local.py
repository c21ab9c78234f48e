"""Local delivery, by the names of Vert.x's scenarios: send, publish and their messages within one process."""

import asyncio
from collections import Counter
from functools import partial

import pytest
from tests.unit.bus.scenes import Seen, turns

from hutong.bus import BusClosed, DeliveryOptions, EventBus, FailureType, Headers, Message, ReplyError
from hutong.foundation.clock import SystemClock
from hutong.runtime.runtime import Runtime


async def test_send_round_robin(bus: EventBus) -> None:
    seen, counts = Seen(), Counter[int]()

    def handle(number: int, message: Message) -> None:
        counts[number] += 1
        seen(message)

    for number in range(10):
        bus.consumer("address", partial(handle, number))
    for index in range(100):
        bus.send("address", index)
    await seen.wait_for(100)
    assert counts == dict.fromkeys(range(10), 10)


async def test_send_register_some_unregister_one(bus: EventBus) -> None:
    seen, others = Seen(), Seen()
    first = bus.consumer("address", others)
    bus.consumer("address", seen)
    bus.consumer("address", seen)
    await first.unregister()
    assert not first.is_registered
    for index in range(10):
        bus.send("address", index)
    assert set(await seen.wait_for(10)) == set(range(10))
    assert others.items == []


async def test_publish_multiple_handlers(bus: EventBus) -> None:
    messages: list[Message] = []
    for _ in range(10):
        bus.consumer("address", messages.append)
    bus.publish("address", "everybody")
    await turns()
    assert [message.body for message in messages] == ["everybody"] * 10
    assert not any(message.is_send for message in messages)


async def test_send_with_no_handler(bus: EventBus) -> None:
    seen = Seen()
    bus.send("nowhere", 1)
    bus.publish("nowhere", 1)
    bus.consumer("nowhere", seen)
    await turns()
    assert seen.items == [], "what was sent to nobody stays lost"


async def test_self_send_does_not_trampoline(bus: EventBus) -> None:
    seen, depth = Seen(), 0

    def handle(message: Message) -> None:
        nonlocal depth
        depth += 1
        assert depth == 1, "a send delivers after its handler has returned"
        if message.body:
            bus.send("self", message.body - 1)
            bus.publish("self", 0)
        depth -= 1
        seen(message)

    bus.consumer("self", handle)
    bus.send("self", 2)
    assert await seen.wait_for(5) == [2, 1, 0, 0, 0]


async def test_headers_copied_after_send(bus: EventBus) -> None:
    seen: list[Headers] = []
    for _ in range(2):
        bus.consumer("address", lambda message: seen.append(message.headers))
    headers = Headers({"name": "before"})
    bus.publish("address", 1, DeliveryOptions(headers=headers))
    headers.set("name", "after")
    await turns()
    assert [item.get("name") for item in seen] == ["before", "before"]
    seen[0].set("name", "mine")
    assert seen[1].get("name") == "before"


async def test_changes_not_visible(bus: EventBus) -> None:
    seen: list[dict[str, object]] = []
    for _ in range(2):
        bus.consumer("address", lambda message: seen.append(message.body))
    body: dict[str, list[object]] = {"list": [1, {"deep": 2}]}
    bus.publish("address", body)
    body["list"].append(3)
    await turns()
    assert seen == [{"list": [1, {"deep": 2}]}] * 2
    seen[0]["mine"] = True
    assert "mine" not in seen[1]


async def test_messages_say_by_which_codec_they_came(bus: EventBus) -> None:
    names: list[str] = []
    bus.consumer("address", lambda message: names.append(message.codec_name))
    bodies: list[object] = [None, True, 1, 1 << 31, 1.5, "x", b"x", {}, []]
    for body in bodies:
        bus.send("address", body)
    await turns()
    assert names == ["null", "boolean", "int", "long", "double", "string", "buffer", "jsonobject", "jsonarray"]


async def test_a_message_without_headers_takes_some(bus: EventBus) -> None:
    messages: list[Message] = []
    bus.consumer("address", messages.append)
    bus.send("address", 1)
    await turns()
    assert len(messages[0].headers) == 0
    messages[0].headers.add("a", "b")
    assert messages[0].headers.get("A") == "b"


@pytest.mark.parametrize(
    ("address", "error"), [("", ValueError), ("x" * 1025, ValueError), (1, TypeError), (None, TypeError)]
)
async def test_an_address_is_a_string_of_some_length(bus: EventBus, address: str, error: type[Exception]) -> None:
    for call in (bus.send, bus.publish, bus.request, bus.consumer, bus.sender, bus.publisher):
        with pytest.raises(error, match="an address"):
            call(address)


async def test_close_fails_what_is_awaited_and_refuses_what_comes(runtime: Runtime) -> None:
    bus = EventBus(runtime)
    ended: list[str] = []
    consumer = bus.consumer("silent", lambda message: None)
    consumer.end_handler = lambda: ended.append("consumer")
    reply = bus.request("silent")
    await bus.close()
    await bus.close()
    with pytest.raises(ReplyError, match="has been closed") as caught:
        await reply
    assert caught.value.failure_type is FailureType.ERROR
    assert not consumer.is_registered
    await turns()
    assert ended == ["consumer"]
    for call in (bus.send, bus.publish, bus.request, bus.consumer):
        with pytest.raises(BusClosed):
            call("silent")


async def test_a_bus_is_made_on_a_running_loop() -> None:
    async with Runtime(SystemClock()) as runtime:
        with pytest.raises(RuntimeError, match="no running event loop"):
            await asyncio.to_thread(EventBus, runtime)


async def test_a_handler_must_be_callable(bus: EventBus) -> None:
    with pytest.raises(TypeError, match="not callable"):
        bus.consumer("address", "handler")  # type: ignore[call-overload]
    with pytest.raises(ReplyError, match="no handlers"):
        await bus.request("address")
    with pytest.raises(ValueError, match="max_buffered_messages"):
        bus.consumer("address", max_buffered_messages=-1)
