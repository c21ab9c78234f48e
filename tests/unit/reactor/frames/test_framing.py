"""Length-prefixed framing: the same frames however the bytes are cut up, and no memory for bytes that never came."""

import struct
import sys
from collections.abc import Iterator
from mmap import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.reactor.frames.framing import (
    DIRECT_FROM_BYTES,
    FIRST_BUFFER_BYTES,
    MAPPED_GROWTH,
    MAPPED_READ_BYTES,
    TRUSTED_BUFFER_BYTES,
    DirectFraming,
    LengthPrefixedFraming,
)

LIMIT = 1 << 20


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def feed_directly(framing: LengthPrefixedFraming, data: bytes, step: int) -> Iterator[bytes]:
    """As the driver does: into the wanted memory where there is some, `step` bytes at most."""
    while data:
        wanted = framing.wanted()
        if wanted is None:
            frames, data = framing.receive_data(memoryview(data[:step])), data[step:]
        else:
            count = min(step, len(wanted), len(data))
            wanted[:count] = data[:count]
            del wanted
            frames, data = framing.received(count), data[count:]
        yield from map(bytes, frames)


def test_whole_frames_come_out_as_bytes() -> None:
    framing = LengthPrefixedFraming(LIMIT)
    assert framing.receive_data(memoryview(bytearray(framed(b"one", b"", b"three")))) == [b"one", b"", b"three"]
    assert framing.bytes_held == 0
    assert isinstance(framing, DirectFraming)


def test_the_data_is_only_lent() -> None:
    framing, lent = LengthPrefixedFraming(LIMIT), bytearray(framed(b"whole") + framed(b"begun")[:-1])
    frames = framing.receive_data(memoryview(lent))
    lent[:] = bytes(len(lent))
    assert frames + framing.receive_data(b"n") == [b"whole", b"begun"]


def test_a_large_frame_whose_prefix_ends_a_read_is_not_lost() -> None:
    payload, framing = b"x" * DIRECT_FROM_BYTES, LengthPrefixedFraming(LIMIT)
    data = framed(payload)
    assert framing.receive_data(data[:4]) == []
    assert framing.bytes_held == 4
    assert [bytes(frame) for frame in framing.receive_data(data[4:])] == [payload]


sizes = st.lists(st.integers(0, 40) | st.integers(DIRECT_FROM_BYTES - 1, 3 * FIRST_BUFFER_BYTES), max_size=6)


@given(sizes, st.integers(1, 200_000), st.booleans())
def test_how_the_bytes_are_cut_up_makes_no_difference(sizes: list[int], step: int, is_direct: bool) -> None:
    sent = [bytes([number]) * size for number, size in enumerate(sizes)]
    framing, data = LengthPrefixedFraming(LIMIT), framed(*sent)
    step = max(step, len(data) // 200)
    if is_direct:
        received = list(feed_directly(framing, data, step))
    else:
        chunks = [data[at : at + step] for at in range(0, len(data), step)]
        received = [bytes(frame) for chunk in chunks for frame in framing.receive_data(chunk)]
    assert received == sent
    assert framing.bytes_held == 0
    assert framing.wanted() is None


def test_bytewise() -> None:
    sent = [b"a", b"", b"bcd" * 100]
    assert list(feed_directly(LengthPrefixedFraming(LIMIT), framed(*sent), 1)) == sent


@pytest.mark.parametrize("length", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_a_wrong_length_fails_after_the_frames_before_it(length: int) -> None:
    framing = LengthPrefixedFraming(LIMIT)
    assert framing.receive_data(framed(b"good") + struct.pack(">i", length) + b"more") == [b"good"]
    assert "are allowed" in str(framing.failure)
    assert framing.receive_data(framed(b"never read")) == []


def test_the_limit_may_change_between_frames() -> None:
    framing = LengthPrefixedFraming(4)
    assert framing.receive_data(framed(b"four")) == [b"four"]
    framing.frame_bytes_max = 5
    assert framing.receive_data(framed(b"fiver")) == [b"fiver"]
    framing.frame_bytes_max = 4
    assert framing.receive_data(framed(b"fiver")) == []
    assert framing.failure is not None


def test_a_length_alone_allocates_next_to_nothing() -> None:
    framing = LengthPrefixedFraming(2**31 - 1)
    framing.receive_data(struct.pack(">i", 2**31 - 1))
    assert framing.wanted() is None
    framing.receive_data(b"x")
    wanted = framing.wanted()
    assert wanted is not None
    assert len(wanted) == FIRST_BUFFER_BYTES - 1


def test_a_buffer_grows_with_what_was_received() -> None:
    framing, length = LengthPrefixedFraming(1 << 26), 1 << 26
    framing.receive_data(struct.pack(">i", length) + b"x")
    received = 1
    while received < length:
        wanted = framing.wanted()
        assert wanted is not None
        if received + len(wanted) > TRUSTED_BUFFER_BYTES:
            assert isinstance(wanted.obj, mmap), "what is not written to is no memory"
            assert received + len(wanted) <= MAPPED_GROWTH * (received + 1)
            assert len(wanted) <= MAPPED_READ_BYTES, "one read brings little, or it holds the loop for fresh pages"
        else:
            assert received + len(wanted) <= max(FIRST_BUFFER_BYTES, 2 * received)
        count = min(len(wanted), 100_000)
        received += count
        wanted[:count] = bytes([received & 255]) * count
        del wanted
        frames = framing.received(count)
    assert [len(frame) for frame in frames] == [length]
    assert frames[0][0] == ord("x")
    assert frames[0][-1] == received & 255


def test_a_map_grows_by_moving_its_pages() -> None:
    """Or by a copy, where the system has no mremap."""
    framing, length = LengthPrefixedFraming(1 << 28), 1 << 28
    framing.receive_data(struct.pack(">i", length) + b"x")
    maps: list[int] = []
    received = 1
    while received < 40 * TRUSTED_BUFFER_BYTES:
        wanted = framing.wanted()
        assert wanted is not None
        if isinstance(wanted.obj, mmap) and id(wanted.obj) not in maps:
            maps.append(id(wanted.obj))
        received += len(wanted)
        wanted[:] = bytes([received & 255]) * len(wanted)
        count = len(wanted)
        del wanted
        framing.received(count)
    assert len(maps) == 1 if sys.platform == "linux" else maps


def test_a_peer_that_sent_a_huge_frame_is_given_no_such_buffer_for_the_next_one() -> None:
    length = 16 * TRUSTED_BUFFER_BYTES
    framing = LengthPrefixedFraming(length)
    assert [len(frame) for frame in feed_directly(framing, framed(bytes(length)), 1 << 20)] == [length]
    framing.receive_data(framed(bytes(length))[:10])
    wanted = framing.wanted()
    assert wanted is not None
    assert len(wanted) < TRUSTED_BUFFER_BYTES


def test_a_peer_that_sent_a_large_frame_is_trusted_with_another() -> None:
    framing, large, less = LengthPrefixedFraming(LIMIT), b"x" * LIMIT, b"y" * DIRECT_FROM_BYTES
    assert list(feed_directly(framing, framed(large, less), 10_000)) == [large, less]
    framing.receive_data(framed(large)[:10])
    wanted = framing.wanted()
    assert wanted is not None
    assert len(wanted) == LIMIT - 6


@given(st.lists(st.binary(max_size=9), min_size=1, max_size=3), st.integers(1, 30))
def test_the_bytes_that_end_a_begun_frame_are_counted(payloads: list[bytes], cut: int) -> None:
    data = framed(*payloads)
    framing = LengthPrefixedFraming(LIMIT)
    whole = len(framing.receive_data(data[:cut]))
    if not framing.bytes_held:
        return
    missing = framing.bytes_missing(memoryview(data[cut:]))
    if missing is None:
        assert framing.bytes_held + len(data[cut:]) < 4
    else:
        assert cut + missing == len(framed(*payloads[: whole + 1]))


def test_a_begun_frame_of_a_wrong_length_has_no_end() -> None:
    for length in (b"\xff\xff\xff\xff", (LIMIT + 1).to_bytes(4)):
        framing = LengthPrefixedFraming(LIMIT)
        framing.receive_data(length[:1])
        assert framing.bytes_missing(length[1:] + b"more") is None


def test_a_begun_large_frame_has_its_end_counted_too() -> None:
    framing = LengthPrefixedFraming(LIMIT)
    framing.receive_data(framed(bytes(DIRECT_FROM_BYTES))[:100])
    assert framing.bytes_missing(b"x") == DIRECT_FROM_BYTES + 4 - 100
