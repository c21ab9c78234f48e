"""A tap keeps little, counts all, and never holds a message up."""

from typing import Any

import pytest

from hutong.bus.envelope.interceptors import Delivery
from hutong.bus.envelope.message import REPLY_PREFIX, FullMessage, Message
from hutong.console.bus.tap import Tap, shown_body
from hutong.console.limits import BUS_BODY_CHARACTERS_SHOWN, TAPPED_WAITING_MAX


def passed(tap: Tap, address: str, body: Any = None) -> list[Message]:
    arrived: list[Message] = []
    errors: list[BaseException] = []
    message = FullMessage(address, body)
    Delivery(message, (tap.outbound, tap.inbound), arrived.append, errors.append).begin()
    assert not errors
    return arrived


def test_it_shows_both_directions_of_its_address() -> None:
    tap = Tap("news")
    assert len(passed(tap, "news", {"a": 1})) == 1
    assert len(passed(tap, "newspaper", "x")) == 1
    messages, seen = tap.take()
    assert [(each.direction, each.body) for each in messages] == [("out", '{"a":1}'), ("in", '{"a":1}')]
    assert seen == 2
    assert tap.take() == ([], 2)


def test_a_star_stands_for_the_rest_and_not_for_replies() -> None:
    tap = Tap("*")
    passed(tap, "a")
    passed(tap, f"{REPLY_PREFIX}7")
    assert {each.address for each in tap.take()[0]} == {"a"}


def test_a_flood_is_counted_and_not_kept() -> None:
    tap = Tap("a")
    for _ in range(TAPPED_WAITING_MAX):
        passed(tap, "a", "x")
    messages, seen = tap.take()
    assert (len(messages), seen) == (TAPPED_WAITING_MAX, 2 * TAPPED_WAITING_MAX)


class Strange:
    pass


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (None, "null"),
        ("text", "text"),
        (b"\x00\xff", "00 ff"),
        ([1, 2.5, True], "[1,2.5,true]"),
        (Strange(), f"<{Strange.__module__}.Strange>"),
    ],
)
def test_bodies_of_all_kinds(body: Any, shown: str) -> None:
    assert shown_body(body) == (shown, False)


@pytest.mark.parametrize("body", ["x" * 100_000, b"x" * 100_000, {"a": "x" * 100_000}])
def test_long_bodies_are_cut(body: Any) -> None:
    text, is_cut = shown_body(body)
    assert (len(text), is_cut) == (BUS_BODY_CHARACTERS_SHOWN, True)


def test_what_refers_to_itself_is_named_only() -> None:
    body: list[Any] = []
    body.append(body)
    assert shown_body(body) == ("<builtins.list>", False)
