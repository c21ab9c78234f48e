"""A durable message: its place, its headers, what its handler may say of it."""

import pytest

from hutong.bus.durable.message import DurableMessage
from hutong.bus.durable.records import StoredRecord, UnreadableBody
from hutong.foundation.errors import UsageError

HEADERS = [("content-type", b"application/json"), ("trace", b"1"), ("Trace", b"2"), ("none", None)]


def message_of(value: bytes | None = b'{"a":1}') -> DurableMessage:
    return DurableMessage.of("topic:orders", StoredRecord("orders", 3, 17, 1_000, b"k", value, HEADERS, 7), 2)


def test_it_knows_its_place_and_what_it_says() -> None:
    message = message_of()
    assert (message.address, message.body, message.is_send, message.reply_address) == (
        "topic:orders",
        {"a": 1},
        False,
        None,
    )
    assert (message.topic, message.partition, message.offset, message.timestamp_ms) == ("orders", 3, 17, 1_000)
    assert (message.key, message.attempt, message.codec_name) == (b"k", 2, "jsonobject")
    assert message.headers.get_all("TRACE") == ["1", "2"]
    assert message.headers is message.headers
    assert message.header_pairs[-1] == ("none", "")
    assert repr(message) == "<DurableMessage publish 'topic:orders' body={'a': 1}>"


def test_its_handler_may_fail_it_and_set_the_pause() -> None:
    message = message_of()
    message.fail(42, "no stock")
    message.retry_after(0.005)
    assert str(message.failure) == "no stock (code 42)"
    assert message.retry_after_ms == 5
    for wrong in (-1, 10**9, float("nan")):
        with pytest.raises(ValueError, match="pause"):
            message.retry_after(wrong)


def test_nobody_awaits_a_reply() -> None:
    with pytest.raises(UsageError, match="nobody awaits a reply"):
        message_of().reply(1)


def test_a_body_that_is_not_what_it_says() -> None:
    with pytest.raises(UnreadableBody):
        message_of(b"{")
