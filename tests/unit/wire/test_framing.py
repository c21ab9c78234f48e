import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.framing import FrameDecoder

MAX = 10_000


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@given(bodies=st.lists(st.binary(max_size=40), max_size=8), cuts=st.lists(st.integers(1, 30)))
def test_frames_come_out_however_the_stream_is_cut(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(framed, bodies)) + b"\0\0\0\x09tail"
    decoder, frames = FrameDecoder(MAX), []
    for size in [*cuts, len(stream)]:
        frames += [bytes(frame) for frame in decoder.receive_data(stream[:size])]
        stream = stream[size:]
    assert frames == bodies
    assert decoder.buffered_bytes == 8


def test_bytewise() -> None:
    decoder = FrameDecoder(MAX)
    frames = [bytes(frame) for byte in framed(b"abc") + framed(b"") for frame in decoder.receive_data(bytes([byte]))]
    assert frames == [b"abc", b""]
    assert decoder.buffered_bytes == 0


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_the_caller_may_reuse_its_buffer(wrap: type[memoryview]) -> None:
    buffer = bytearray(framed(b"whole") + framed(b"broken")[:7])
    decoder = FrameDecoder(MAX)
    frames = decoder.receive_data(wrap(buffer))
    buffer[:] = bytes(len(buffer))
    frames += decoder.receive_data(b"ken")
    assert [bytes(frame) for frame in frames] == [b"whole", b"broken"]


@pytest.mark.parametrize("size", [-1, -(2**31), MAX + 1, 2**31 - 1])
@pytest.mark.parametrize("cut", [1, 4])
def test_sizes_out_of_bounds_are_refused_as_soon_as_they_are_seen(size: int, cut: int) -> None:
    decoder, stream = FrameDecoder(MAX), struct.pack(">i", size)
    for start in range(0, 4 - cut, cut):
        assert decoder.receive_data(stream[start : start + cut]) == []
    with pytest.raises(ProtocolError, match=str(size)):
        decoder.receive_data(stream[-cut:])


def test_a_frame_of_the_limit_is_taken_and_the_limit_may_change() -> None:
    decoder = FrameDecoder(4)
    assert decoder.receive_data(framed(b"1234")) == [b"1234"]
    decoder.max_frame_bytes = 5
    assert decoder.receive_data(framed(b"12345")) == [b"12345"]


def test_memory_follows_what_came_not_what_was_claimed() -> None:
    decoder = FrameDecoder(2**31 - 1)
    tracemalloc.start()
    try:
        decoder.receive_data(struct.pack(">i", 2**31 - 1) + bytes(1000))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
