"""Options as keywords of the calls: what arrives, and what a wrong one is answered with."""

from datetime import timedelta
from typing import Any

import pytest
from tests.unit.bus.scenes import Seen

from hutong.bus import DeliveryOptions, EventBus, FailureType, Headers, Message, ReplyError
from hutong.bus.options import DEFAULT, TIMEOUT_MS_MAX, given_options
from hutong.foundation.errors import UsageError


def headers_and_codec(message: Message) -> list[object]:
    return [message.headers.items(), message.codec_name]


@pytest.mark.parametrize(
    "headers", [{"user": "mei"}, [("user", "mei")], Headers({"user": "mei"})], ids=["dict", "pairs", "Headers"]
)
async def test_a_send_and_a_publish_have_headers(bus: EventBus, headers: Any) -> None:
    seen = Seen()
    bus.consumer("a", lambda message: seen.note(message.headers.items()))
    bus.send("a", 1, headers=headers)
    bus.publish("a", 1, headers=headers)
    assert await seen.wait_for(2) == [[("user", "mei")]] * 2


async def test_every_call_takes_a_codec(bus: EventBus) -> None:
    seen = Seen()
    bus.consumer("a", lambda message: seen.note(message.codec_name))
    bus.send("a", 1, codec="short")
    bus.publish("a", 1, codec="short")
    await bus.sender("a", codec="short").write(1)
    await bus.publisher("a", codec="short").write(1)
    assert await seen.wait_for(4) == ["short"] * 4


async def test_producers_have_headers(bus: EventBus) -> None:
    seen = Seen()
    bus.consumer("a", lambda message: seen.note(message.headers.items()))
    await bus.sender("a", headers={"n": "1"}).write(1)
    await bus.publisher("a", headers={"n": "2"}).write(1)
    assert await seen.wait_for(2) == [[("n", "1")], [("n", "2")]]


async def test_a_request_and_its_reply_have_headers_and_codecs(bus: EventBus) -> None:
    def handle(message: Message) -> None:
        message.reply(message.body, headers={"got": str(message.headers.get("ask"))}, codec="byte")

    bus.consumer("a", handle)
    reply = await bus.request("a", 1, headers={"ask": "x"}, timeout=2.5, codec="short")
    assert headers_and_codec(reply) == [[("got", "x")], "byte"]


async def test_a_reply_that_asks_has_them_too(bus: EventBus) -> None:
    async def handle(message: Message) -> None:
        answer = await message.reply_and_request("and you?", headers={"n": "1"}, timeout=5, codec="string")
        answer.reply(None, headers={"n": "2"})

    bus.consumer("a", handle)
    asked = await bus.request("a")
    assert headers_and_codec(asked) == [[("n", "1")], "string"]
    last = await asked.reply_and_request("well", headers={"n": "3"})
    assert last.headers.items() == [("n", "2")]


async def test_a_request_ends_after_its_timeout(bus: EventBus) -> None:
    bus.consumer("a", lambda message: None)
    with pytest.raises(ReplyError) as caught:
        await bus.request("a", timeout=0.01)
    assert caught.value.failure_type is FailureType.TIMEOUT


@pytest.mark.parametrize(
    ("timeout", "timeout_ms"),
    [(2.5, 2_500), (1, 1_000), (1.1, 1_100), (0.0001, 1), (TIMEOUT_MS_MAX / 1000, TIMEOUT_MS_MAX)],
)
def test_a_timeout_is_in_seconds(timeout: float, timeout_ms: int) -> None:
    assert given_options(DEFAULT, timeout=timeout) == DeliveryOptions(timeout)
    assert DeliveryOptions(timeout).timeout_ms == timeout_ms


@pytest.mark.parametrize(
    ("keywords", "sentence"),
    [
        ({"timeout": 0}, "timeout is above 0"),
        ({"timeout": -1.0}, "timeout is above 0"),
        ({"timeout": float("nan")}, "timeout is above 0"),
        ({"timeout": float("inf")}, "timeout is above 0"),
        ({"timeout": 2_147_484}, "at most 2147483 seconds"),
        ({"timeout": True}, "number of seconds, such as 2.5, not bool"),
        ({"timeout": "2"}, "number of seconds, such as 2.5, not str"),
        ({"timeout": timedelta(seconds=2)}, "not timedelta"),
        ({"headers": {"retries": 3}}, "two strings, not str and int"),
        ({"headers": "user"}, "this is str"),
        ({"headers": 5}, "this is int"),
        ({"codec": 5}, "codec is the name of a registered codec, not int"),
        ({"options": {"timeout": 2}}, r"DeliveryOptions\(...\), not dict; keywords are shorter: headers={...}"),
        ({"options": DeliveryOptions(), "headers": {}}, "not in both"),
        ({"options": DeliveryOptions(), "timeout": 1}, "not in both"),
        ({"options": DeliveryOptions(), "codec": "short"}, "not in both"),
    ],
    ids=str,
)
async def test_a_wrong_keyword_is_answered_with_a_sentence(
    bus: EventBus, keywords: dict[str, Any], sentence: str
) -> None:
    bus.consumer("a", lambda message: None)
    with pytest.raises(UsageError, match=sentence):
        bus.request("a", None, **keywords)
    assert bus.replies_waiting == 0  # a refused request leaves no wait
    if "timeout" not in keywords:
        for call in (bus.send, bus.publish):
            with pytest.raises(UsageError, match=sentence):
                call("a", None, **keywords)
        for maker in (bus.sender, bus.publisher):
            with pytest.raises(UsageError, match=sentence):
                maker("a", **keywords)


async def test_keywords_by_position_are_refused(bus: EventBus) -> None:
    bus.consumer("a", lambda message: None)
    with pytest.raises(UsageError, match="not in both"):
        bus.send("a", 1, DeliveryOptions(), {"user": "mei"})
    with pytest.raises(UsageError, match="not dict"):
        bus.send("a", 1, {"user": "mei"})  # type: ignore[arg-type]


async def test_a_wrong_reply_fails_its_request(bus: EventBus) -> None:
    bus.consumer("a", lambda message: message.reply(1, headers={"n": 1}))  # type: ignore[arg-type]
    with pytest.raises(ReplyError, match="two strings") as caught:
        await bus.request("a")
    assert caught.value.failure_type is FailureType.RECIPIENT_FAILURE
