"""Targets of the reactor's own framings and handlers: cut anywhere, a stream has the same frames and the same end."""

import ssl
from contextlib import suppress
from functools import cache
from typing import Any

import trustme
from tests.fuzz.target import Target
from tests.support.piping import ECHO, read_directly, read_piped

from hutong.reactor import (
    ConnectionPipeline,
    IdleHandler,
    JsonCodec,
    LengthFrames,
    LineFrames,
    PipelineHandler,
    PipelineLink,
    SniffHandler,
    TlsHandler,
    is_tls,
)
from hutong.reactor.frames.lines import LineFraming
from hutong.remoting import Command
from hutong.wire.rocketmq.command import encode, encode_binary

LINE_BYTES_MAX = 200


class Taken(PipelineHandler):
    """The last handler: keeps values and answers each."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def inbound(self, value: Any, link: PipelineLink) -> None:
        self.values.append(value)
        link.pass_outbound(value)


def parts_of(data: bytes) -> list[list[bytes]]:
    half = len(data) // 2
    return [[data], [data[:half], data[half:]]]


def read_lines(data: bytes) -> object:
    ways = []
    for parts in parts_of(data):
        framing = LineFraming(LINE_BYTES_MAX)
        lines = [bytes(line) for part in parts for line in framing.receive_data(part)]
        assert framing.bytes_held <= LINE_BYTES_MAX
        ways.append((lines, framing.failure is None))
    assert ways[0] == ways[1]
    return ways


def read_pipeline(data: bytes) -> object:
    """The first byte chooses lines or lengths."""
    ways = []
    for parts in parts_of(data[1:]):
        taken = Taken()
        framing = LineFrames(LINE_BYTES_MAX) if data[:1] == b"L" else LengthFrames(LINE_BYTES_MAX)
        pipeline = ConnectionPipeline([framing, JsonCodec(), taken])
        for part in parts:
            pipeline.receive_data(part, 0)
        pipeline.check_invariants()
        ways.append((b"".join(pipeline.data_to_send()), str(pipeline.failure)))
    assert ways[0] == ways[1]
    return ways


def read_commands(data: bytes) -> object:
    """A pipeline of remoting, cut in half, held or not, does as an endpoint without one."""
    direct = read_directly(data)
    for holds in (False, True):
        assert read_piped(data, [0, len(data) // 2, len(data)], holds) == direct
    return direct


def commands() -> list[bytes]:
    plain = encode_binary(ECHO, 1, 0, b"", b"body") + encode_binary(ECHO, 2, 0)
    return [plain, b"".join(map(bytes, encode(Command(ECHO, fields={"a": "b"}, remark="x", serialization=0))))]


@cache
def context() -> ssl.SSLContext:
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("here").configure_cert(made)
    return made


def hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="here")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def read_sniffed(data: bytes) -> object:
    """Lines, plain or behind TLS, with an idle time: in pieces: nothing but a fault of the peer ends it."""
    taken = Taken()
    choose = lambda first: [TlsHandler(context())] if is_tls(first) else []  # noqa: E731
    pipeline = ConnectionPipeline([IdleHandler(1), SniffHandler(choose), LineFrames(LINE_BYTES_MAX), taken])
    pipeline.open(0)
    for start in range(0, len(data), max(3, len(data) // 20)):
        pipeline.receive_data(data[start : start + max(3, len(data) // 20)], start)
        pipeline.handle_timer(start)
        pipeline.check_invariants()
    pipeline.end(len(data))
    return taken.values, len(pipeline.data_to_send())


TARGETS = [
    Target("lines", read_lines, lambda: [b"one\r\ntwo\n\nthree", b"x" * 201], ()),
    Target("handlers", read_pipeline, lambda: [b'L{"a":[1]}\n"b"\n', b"#\0\0\0\1" + b"1\0\0\0\2[]"], ()),
    Target("commands", read_commands, commands, ()),
    Target("sniffed", read_sniffed, lambda: [b"one\ntwo\n", hello()], (), slowness=2),
]
