"""Targets for what clients of bridges and connections send, and for what comes from the log to the bus."""

import itertools
import json
from collections.abc import Iterator
from contextlib import suppress

import msgspec
from tests.fuzz.target import KIBIBYTE, MEBIBYTE, Target

from hutong.bus.clustered.availability.entries import HaVerticle, decode_entry, encode_entry
from hutong.bus.durable.consume.caution import CautionNote, read_note
from hutong.bus.durable.records import UnreadableBody, decode_body, decode_headers
from hutong.bus.envelope.codecs import SYSTEM_CODECS
from hutong.bus.envelope.java_objects import ClusterSerializable, JavaSerialized
from hutong.bus.shared.names import key_name, key_of
from hutong.bus.shared.values import VALUE_CODECS, decode_pair, decode_value, encode_pair, encode_value
from hutong.bus.sockjs.web.frames import decode_messages
from hutong.foundation.errors import LimitExceeded, ProtocolError
from hutong.foundation.trace_context import read_trace
from hutong.reactor.frames.framing import LengthPrefixedFraming
from hutong.rpc.descriptions.conversion import arguments_from
from hutong.rpc.errors import BadArguments, Failure
from hutong.rpc.remote import wire
from hutong.web.limits import HttpLimits
from hutong.web.machine import HttpConnection, websocket_key
from hutong.web.messages import HttpFault, HttpRequest
from hutong.web.websocket import WebSocket
from hutong.wire.rocketmq import command
from hutong.wire.vertx import client_frames
from hutong.wire.vertx.codes import Dialect

PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def read_command(data: bytes) -> object:
    found = command.decode(data)
    found.ext()
    return found


def commands() -> Iterator[bytes]:
    fields = {"topic": "orders", "a": "b"}
    for serialization in (command.BINARY, command.JSON):
        for remark in (None, "not now"):
            made = command.Command(10, 7, 0, None, b"body", remark, dict(fields))
            yield b"".join(bytes(part) for part in command.encode(made, serialization=serialization))[4:]


def read_call(data: bytes) -> object:
    """Heads and failures of calls over connections."""
    head = wire.Heads(4).read(data)
    wire.decode_headers(data)
    return head


def calls() -> Iterator[bytes]:
    yield wire.encode_call("orders", "place", 5_000, [("request-id", "1"), ("traceparent", PARENT.decode())])
    yield wire.encode_call("orders", "place", None)


def read_failure(data: bytes) -> object:
    size = int.from_bytes(data[:2], "big")
    return wire.decode_failure(data[2 : 2 + size], "remark", data[2 + size :])


def failures() -> Iterator[bytes]:
    block, _, body = wire.encode_failure(Failure(17, "sold out", {"causeName": "x", "stack": ["a"]}))
    yield len(block).to_bytes(2, "big") + block + body


class Arguments(msgspec.Struct):
    item: str
    count: int = 1
    more: dict[str, list[float]] | None = None


_decode_arguments = msgspec.msgpack.Decoder(Arguments).decode


def read_arguments(data: bytes) -> object:
    """As a call over a connection has them, and as one over the bus."""
    from hutong.rpc.descriptions.conversion import bad_arguments

    try:
        _decode_arguments(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        bad_arguments("place", error)
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return arguments_from(body, "place", Arguments)


def read_client_frame(data: bytes) -> object:
    found = [client_frames.decode(data, dialect) for dialect in Dialect]
    with_text = data.decode(errors="replace")
    return found, client_frames.decode(with_text, Dialect.SOCKJS)


def client_frame_seeds() -> Iterator[bytes]:
    for kind in ("send", "publish", "register", "unregister", "ping"):
        yield json.dumps(
            {
                "type": kind,
                "address": "orders",
                "replyAddress": "r1",
                "headers": {"a": "b", "timeout": 5, "localOnly": True, "codecName": "x"},
                "body": {"a": [1, 2.5e10, None, "x"], "b": {"c": 12345678901234567890}},
            }
        ).encode()
    yield b'{"type":"send","address":"a","failureCode":17,"message":"no"}'


def serve_http(data: bytes) -> object:
    """A connection that answers each request at once; the data comes in two reads, cut where its first byte says."""
    connection = HttpConnection(HttpLimits(body_bytes_max=16 * KIBIBYTE))
    cut = data[0] if data else 0
    seen: list[object] = []
    for part in filter(None, (data[1 : 1 + cut], data[1 + cut :])):
        events = list(connection.receive(part))
        for _ in range(10_000):
            if not events:
                events = list(connection.next_slice()) if connection.is_behind else list(connection.next_events())
                if not events:
                    break
            event = events.pop(0)
            seen.append(event)
            if isinstance(event, HttpRequest):
                key = websocket_key(event.headers)
                wishes = [word.strip().lower() for word in event.headers.get("connection", "").split(",")]
                wants = event.headers.get("upgrade", "").strip().lower() == "websocket" and "upgrade" in wishes
                if key is not None and wants:  # as the handler asks
                    connection.accept_websocket(key)
                else:
                    connection.respond(200, [], b"ok")
            elif isinstance(event, HttpFault):
                connection.refuse(event.status, event.text.encode())
            connection.data_to_send()
            if connection.is_finished:
                return seen
    return seen


def http_requests() -> Iterator[bytes]:
    yield b"\x10GET /eventbus/info HTTP/1.1\r\nHost: x\r\n\r\n"
    yield b"\x20POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: x\r\n\r\n"
    yield b"\x30POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    head = b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    head += b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    yield b"\xff" + head + next(websocket_frames())
    yield b"\x05HEAD / HTTP/1.0\r\n\r\n"


def read_websocket(data: bytes) -> object:
    socket = WebSocket(4 * KIBIBYTE)
    cut = len(data) // 3
    seen = socket.receive_data(data[:cut]) + socket.receive_data(data[cut:])
    socket.data_to_send()
    return seen


def websocket_frames() -> Iterator[bytes]:
    def frame(opcode: int, payload: bytes) -> bytes:
        mask = b"\1\2\3\4"
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
        return bytes([opcode, 0x80 | len(payload)]) + mask + masked

    yield frame(0x81, b'["hello"]') + frame(0x89, b"ping") + frame(0x88, b"\x03\xe8bye")
    yield frame(0x01, b"par") + frame(0x00, b"ts ") + frame(0x80, b"end")
    yield frame(0x82, b"\0\1")


def cut_frames(data: bytes) -> object:
    """A stream in two reads is cut like the stream in one, and byte by byte."""
    ways = []
    for parts in ([data], [data[: len(data) // 2], data[len(data) // 2 :]], [bytes([byte]) for byte in data[:512]]):
        framing = LengthPrefixedFraming(2 * KIBIBYTE)
        ways.append([bytes(frame) for part in parts for frame in framing.receive_data(part)])
    assert ways[0] == ways[1]
    assert ways[2] == ways[0][: len(ways[2])]
    return ways


def read_bus_body(data: bytes) -> object:
    """By one of the system's codecs, which the first byte says."""
    codecs = sorted(SYSTEM_CODECS)
    return SYSTEM_CODECS[codecs[data[0] % len(codecs)]].decode(data[1:]) if data else None


def read_shared_value(data: bytes) -> object:
    """What Java alone can read is passed on as it is."""
    value = decode_value(data)
    if isinstance(value, JavaSerialized):
        assert encode_value(value) == data
    return value


def shared_values() -> Iterator[bytes]:
    examples: dict[str, object] = {
        "string": "ü😀\0", "char": "x", "boolean": True, "bytearray": b"12", "buffer": b"1", "jsonobject": {"a": [1]},
        "jsonarray": [1],
    }  # fmt: skip
    for codec in sorted(VALUE_CODECS):
        yield encode_value(examples.get(codec, 7), codec)
    yield encode_value("x" * 70_000)
    yield encode_value(ClusterSerializable("com.shop.Cart", b"123"))
    yield encode_value(JavaSerialized(b"\xac\xed\x00\x05sr"))


def read_shared_pair(data: bytes) -> object:
    """An entry of a synchronous map, and the name of a key."""
    with suppress(ProtocolError):
        key_of(data.decode(errors="replace"))
    with suppress(ProtocolError):
        decode_entry(data)
    return decode_pair(data)


def shared_pairs() -> Iterator[bytes]:
    yield encode_pair("d7c5b005-0b9d", '{"verticles":[],"group":"g"}')
    yield encode_pair("key", "x" * 70_000)
    yield encode_entry("d7c5", "shop", (HaVerticle("1", "shop.orders:Orders", {"config": {"a": 1}}),))
    yield key_name("rice").encode()


def bus_bodies() -> Iterator[bytes]:
    for number, _ in enumerate(sorted(SYSTEM_CODECS)):
        for body in (b"", b"\0", b"\0\0\0\1x", b'{"a":[1]}', b"12345678", b"[1,2]"):
            yield bytes([number]) + body


def read_durable(data: bytes) -> object:
    kinds = [b"application/json", b"text/plain; charset=utf-8", b"x/y+json", b"\xff", None]
    kind = kinds[data[0] % len(kinds)] if data else None
    headers = [("content-type", kind), ("h", data[1:20]), ("h", None)]
    decode_headers(headers)
    read_note(data[1:].decode(errors="replace"))
    return decode_body(data[1:], headers)


def durable_seeds() -> Iterator[bytes]:
    for number, body in itertools.product(range(5), (b'{"a": [1, 2]}', b"text", str(CautionNote(3, 1)).encode(), b"")):
        yield bytes([number]) + body


def read_trace_headers(data: bytes) -> object:
    """Lines are headers: what stands before the first '=' is the name."""
    pairs: list[tuple[str, str | bytes | None]] = []
    for line in data.split(b"\n"):
        name, _, value = line.partition(b"=")
        pairs.append((name.decode(errors="replace"), value if len(line) % 2 else value.decode(errors="replace")))
    found = read_trace(pairs)
    if found is not None:
        assert read_trace(found.headers()) == found
    return found


TARGETS = [
    Target("rocketmq-command", read_command, commands),
    Target("call-head", read_call, calls),
    Target("call-failure", read_failure, failures),
    Target(
        "call-arguments",
        read_arguments,
        lambda: [msgspec.msgpack.encode(Arguments("a", 2, {"x": [1.5]})), b'{"item":"a","count":2,"more":{"x":[1]}}'],
        (BadArguments,),
    ),
    Target("bridge-frame", read_client_frame, client_frame_seeds, ()),
    Target("http", serve_http, http_requests, (), memory_base=4 * MEBIBYTE, memory_factor=2_000),
    Target("websocket", read_websocket, websocket_frames, (), memory_factor=2_000),
    Target("sockjs-messages", decode_messages, lambda: [b'["a","b"]', b'"a"', b'["\\ud800"]', b"[1]"], ()),
    Target("frames", cut_frames, lambda: [b"\0\0\0\3abc\0\0\0\0\0\0\1\0" + bytes(256), b"\xff\xff\xff\xff"], ()),
    Target("bus-body", read_bus_body, bus_bodies, (ProtocolError,)),
    Target("shared-value", read_shared_value, shared_values, (ProtocolError,)),
    Target("shared-pair", read_shared_pair, shared_pairs, (ProtocolError,)),
    Target("durable-record", read_durable, durable_seeds, (UnreadableBody, LimitExceeded)),
    Target("trace-headers", read_trace_headers, lambda: [b"traceparent=" + PARENT + b"\ntracestate=a=1,b@c=2"], ()),
]
