"""Fingerprints of calls: the same for a repeated request in every process and over every transport."""

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.clock import ManualClock
from hutong.remoting.channels.channel import Channel
from hutong.rpc.calling.caller import Caller
from hutong.rpc.delivery.fingerprints import fingerprint_of
from hutong.rpc.descriptions.conversion import as_names
from hutong.rpc.errors import BadArguments
from hutong.rpc.over_bus.endpoint import BusCall
from hutong.rpc.remote.incoming import IncomingCalls, RemoteCall
from hutong.rpc.remote.wire import encode_body
from hutong.wire.rocketmq.command import Command


class NoServices:
    def find(self, address: str) -> None:
        return None


def nobody(channel: Channel) -> Caller:
    raise AssertionError(f"nobody is called back over {channel}")


def over_the_bus(arguments: dict[str, Any], action: str = "pay") -> BusCall:
    return BusCall("orders", action, body=as_names(arguments))


async def over_a_connection(arguments: dict[str, Any]) -> RemoteCall:
    calls = IncomingCalls(NoServices(), asyncio.get_running_loop(), ManualClock(), caller_over=nobody)
    return RemoteCall("orders", "pay", command=Command(1, body=encode_body(arguments)), calls=calls)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(st.text(max_size=3), values, max_size=4)


def test_a_digest_is_the_same_in_every_process_and_release() -> None:
    call = over_the_bus({"amount": 12, "to": ["Ann", None], "at": {"b": 1.5, "a": True}})
    assert fingerprint_of(call).digest.hex() == "e519f9aa7bf6e79f6fc03fea9c2d2fbe"


@given(objects)
def test_the_order_of_names_does_not_count(arguments: dict[str, Any]) -> None:
    turned = dict(reversed(arguments.items()))
    assert fingerprint_of(over_the_bus(arguments)) == fingerprint_of(over_the_bus(turned))


@given(objects, objects)
def test_other_arguments_have_another_digest(one: dict[str, Any], other: dict[str, Any]) -> None:
    are_same = msgspec.msgpack.encode(one, order="sorted") == msgspec.msgpack.encode(other, order="sorted")
    assert (fingerprint_of(over_the_bus(one)) == fingerprint_of(over_the_bus(other))) is are_same


def test_other_actions_have_other_fingerprints() -> None:
    assert fingerprint_of(over_the_bus({}, "pay")) != fingerprint_of(over_the_bus({}, "reserve"))


def test_no_body_is_no_arguments() -> None:
    assert fingerprint_of(BusCall("orders", "pay")) == fingerprint_of(over_the_bus({}))


def test_large_integers_count() -> None:
    assert fingerprint_of(over_the_bus({"a": 1 << 70})) == fingerprint_of(over_the_bus({"a": 1 << 70}))
    assert fingerprint_of(over_the_bus({"a": 1 << 70})) != fingerprint_of(over_the_bus({"a": 1 << 71}))


async def test_the_transport_does_not_count() -> None:
    arguments = {
        "amount": Decimal("1.50"),
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "content": b"\x00\xff",
        "lines": [{"item": "apple", "count": 3}, None],
    }
    assert fingerprint_of(over_the_bus(arguments)) == fingerprint_of(await over_a_connection(arguments))


@pytest.mark.parametrize("body", ["\ud800", {"a": object()}, {"a": "\ud800"}])
def test_what_json_cannot_say_is_refused(body: Any) -> None:
    with pytest.raises(BadArguments, match="pay"):
        fingerprint_of(BusCall("orders", "pay", body=body))
