"""Codecs: the system's to the byte, one's own by name and by type, and what is refused."""

import math
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.bus.scenes import turns

from hutong.bus import DeliveryOptions, EventBus, FailureType, Message, ReplyError
from hutong.bus.envelope.bodies import DEPTH_MAX
from hutong.bus.envelope.codecs import SYSTEM_CODECS
from hutong.foundation.errors import ProtocolError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
TEXT = st.text()
BODIES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "ping": st.none(),
    "byte": st.integers(-(1 << 7), (1 << 7) - 1),
    "boolean": st.booleans(),
    "short": st.integers(-(1 << 15), (1 << 15) - 1),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": TEXT,
    "char": st.characters(max_codepoint=0xFFFF),
    "buffer": st.binary(),
    "bytearray": st.binary(),
    "jsonobject": st.dictionaries(TEXT, JSON, max_size=4),
    "jsonarray": st.lists(JSON, max_size=4),
}


@pytest.mark.parametrize("name", BODIES)
@given(data=st.data())
def test_a_system_codec_gives_back_what_it_took(name: str, data: st.DataObject) -> None:
    codec, body = SYSTEM_CODECS[name], data.draw(BODIES[name])
    assert codec.decode(codec.encode(body)) == body
    assert codec.transform(body) == body


@pytest.mark.parametrize(
    ("name", "body", "wire"),
    [
        ("null", None, ""),
        ("byte", -1, "ff"),
        ("boolean", True, "00"),
        ("boolean", False, "01"),
        ("short", 258, "0102"),
        ("int", 1, "00000001"),
        ("long", -2, "fffffffffffffffe"),
        ("float", 1.5, "3fc00000"),
        ("double", 1.5, "3ff8000000000000"),
        ("string", "h\u00e9", "0000000368c3a9"),
        ("char", "\u20ac", "20ac"),
        ("buffer", b"ab", "000000026162"),
        ("bytearray", b"", "00000000"),
        ("jsonobject", {"a": b"\xff"}, "0000000a" + b'{"a":"_w"}'.hex()),
        ("jsonarray", [1, "x"], "00000007" + b'[1,"x"]'.hex()),
    ],
)
def test_a_system_codec_writes_what_vertx_writes(name: str, body: object, wire: str) -> None:
    assert SYSTEM_CODECS[name].encode(body).hex() == wire


def test_numbers_of_the_system_codecs() -> None:
    names = ["null", "ping", "byte", "boolean", "short", "int", "long", "float", "double", "string", "char", "buffer"]
    names += ["bytearray", "jsonobject", "jsonarray", "replyexception"]
    assert [SYSTEM_CODECS[name].number for name in names] == list(range(16))


@pytest.mark.parametrize("text", ["", "why"])
def test_errors_travel(text: str) -> None:
    codec = SYSTEM_CODECS["replyexception"]
    wire = codec.encode(ReplyError(FailureType.RECIPIENT_FAILURE, -7, text))
    assert wire == b"\x02\xff\xff\xff\xf9" + (b"\x01\x00\x00\x00\x03why" if text else b"\x00")
    error = codec.decode(wire)
    assert (error.failure_type, error.failure_code, error.message) == (FailureType.RECIPIENT_FAILURE, -7, text)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("byte", 128),
        ("short", 1 << 15),
        ("int", 1 << 31),
        ("long", 1 << 63),
        ("int", True),
        ("int", 1.0),
        ("boolean", 1),
        ("float", 1e39),
        ("double", "1"),
        ("string", b"x"),
        ("string", "\ud800"),
        ("char", "ab"),
        ("char", "\U0001f600"),
        ("buffer", "x"),
        ("jsonobject", []),
        ("jsonarray", {}),
        ("jsonarray", [math.nan]),
        ("jsonobject", {"\ud800": 1}),
        ("null", 0),
        ("replyexception", "x"),
    ],
)
def test_what_a_system_codec_does_not_take(name: str, body: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        SYSTEM_CODECS[name].encode(body)


@pytest.mark.parametrize("name", SYSTEM_CODECS)
@given(data=st.binary(max_size=20))
def test_broken_bytes_are_a_protocol_error_and_no_other(name: str, data: bytes) -> None:
    codec = SYSTEM_CODECS[name]
    with suppress(ProtocolError):
        codec.check(codec.decode(data))


@pytest.mark.parametrize("name", ["jsonobject", "jsonarray"])
def test_deep_json_is_a_protocol_error(name: str) -> None:
    text = b"[" * 100_000
    with pytest.raises(ProtocolError, match=name):
        SYSTEM_CODECS[name].decode(struct.pack(">i", len(text)) + text)


@dataclass
class Point:
    x: int
    y: int


class PointCodec:
    """Sends points, gives copies of them."""

    name = "point"

    def encode(self, body: Point) -> bytes:
        return struct.pack(">ii", body.x, body.y)

    def decode(self, data: bytes) -> Point:
        return Point(*struct.unpack(">ii", data))

    def transform(self, body: Point) -> Point:
        return Point(body.x, body.y)


async def test_a_codec_by_name(bus: EventBus) -> None:
    bus.register_codec(PointCodec())
    messages: list[Message] = []
    for _ in range(2):
        bus.consumer("address", messages.append)
    point = Point(1, 2)
    bus.publish("address", point, DeliveryOptions(codec_name="point"))
    point.x = 5
    await turns()
    assert [message.body for message in messages] == [Point(1, 2)] * 2
    assert messages[0].body is not messages[1].body
    assert messages[0].codec_name == "point"
    with pytest.raises(TypeError, match=r"no codec for a .*Point"):
        bus.send("address", point)


async def test_a_default_codec_for_a_type(bus: EventBus) -> None:
    bus.register_codec(PointCodec(), default_for=Point)
    bus.consumer("double", lambda message: Point(message.body.x * 2, message.body.y * 2))
    assert (await bus.request("double", Point(1, 2))).body == Point(2, 4)
    bus.unregister_codec("point")
    bus.unregister_codec("point")
    with pytest.raises(TypeError, match="no codec"):
        bus.send("double", Point(1, 2))
    with pytest.raises(ValueError, match="no codec is named 'point'"):
        bus.send("double", Point(1, 2), DeliveryOptions(codec_name="point"))


async def test_register_codec_twice(bus: EventBus) -> None:
    bus.register_codec(PointCodec(), default_for=Point)
    with pytest.raises(ValueError, match="registered already"):
        bus.register_codec(PointCodec())
    other = PointCodec()
    other.name = "other"
    with pytest.raises(ValueError, match="Point has a default codec already"):
        bus.register_codec(other, default_for=Point)
    bus.register_codec(other)


@pytest.mark.parametrize("name", SYSTEM_CODECS)
async def test_register_system_codec(bus: EventBus, name: str) -> None:
    codec = PointCodec()
    codec.name = name
    with pytest.raises(ValueError, match="system codec"):
        bus.register_codec(codec)
    with pytest.raises(ValueError, match="system codec"):
        bus.unregister_codec(name)


async def test_what_is_no_codec(bus: EventBus) -> None:
    with pytest.raises(TypeError, match="a codec has a name"):
        bus.register_codec(object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="str has a default codec already"):
        bus.register_codec(PointCodec(), default_for=str)


async def test_system_codecs_by_name(bus: EventBus) -> None:
    messages: list[Message] = []
    bus.consumer("address", messages.append)
    bus.send("address", 5, DeliveryOptions(codec_name="short"))
    bus.send("address", 0.1, DeliveryOptions(codec_name="float"))
    await turns()
    assert [message.codec_name for message in messages] == ["short", "float"]
    assert messages[1].body == pytest.approx(0.1)
    assert messages[1].body != 0.1, "as much of it as 32 bits hold"
    with pytest.raises(ValueError, match="does not fit"):
        bus.send("address", 1 << 15, DeliveryOptions(codec_name="short"))


class Declined(ReplyError):
    """A failure with more to say."""

    def __init__(self, reason: str) -> None:
        super().__init__(FailureType.RECIPIENT_FAILURE, 9, reason)


class DeclinedCodec:
    name = "declined"

    def encode(self, body: Declined) -> bytes:
        return body.message.encode()

    def decode(self, data: bytes) -> Declined:
        return Declined(data.decode())

    def transform(self, body: Declined) -> Declined:
        return Declined(body.message)


async def test_reply_exception_subclass(bus: EventBus) -> None:
    bus.register_codec(DeclinedCodec(), default_for=Declined)
    bus.consumer("address", lambda message: message.reply(Declined("not today")))
    with pytest.raises(Declined, match="not today") as caught:
        await bus.request("address")
    assert caught.value.failure_code == 9


@pytest.mark.parametrize("body", [object(), (1, 2), {1, 2}, bytearray(b"x"), [object()], {"a": {"b": (1,)}}, {1: "x"}])
async def test_unknown_bodies_are_refused_where_they_are_sent(bus: EventBus, body: object) -> None:
    bus.consumer("address", lambda message: None)
    for call in (bus.send, bus.publish, bus.request):
        for address in ("address", "nowhere"):
            with pytest.raises(TypeError, match=r"no codec|keys of a dict"):
                call(address, body)
    assert bus.replies_waiting == 0


async def test_bodies_have_a_depth(bus: EventBus) -> None:
    bus.consumer("echo", lambda message: message.reply(message.body))
    deep: list[Any] = []
    for _ in range(DEPTH_MAX - 1):
        deep = [deep]
    assert (await bus.request("echo", deep)).body == deep
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    for body in ([deep], cycle):
        with pytest.raises(ValueError, match="must not contain itself"):
            bus.send("echo", body)


async def test_what_cannot_be_a_reply_is_said_to_the_replier(bus: EventBus, failures: list[BaseException]) -> None:
    bus.consumer("address", lambda message: message.reply(object()))
    with pytest.raises(ReplyError, match="UnknownBody: no codec"):
        await bus.request("address")
    assert len(failures) == 1
