"""Targets of the reactor's own framings and handlers: cut anywhere, a stream has the same frames and the same end."""

from typing import Any

from tests.fuzz.target import Target

from hutong.reactor import ConnectionPipeline, JsonCodec, LengthFrames, LineFrames, PipelineHandler, PipelineLink
from hutong.reactor.frames.lines import LineFraming

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


TARGETS = [
    Target("lines", read_lines, lambda: [b"one\r\ntwo\n\nthree", b"x" * 201], ()),
    Target("handlers", read_pipeline, lambda: [b'L{"a":[1]}\n"b"\n', b"#\0\0\0\1" + b"1\0\0\0\2[]"], ()),
]
