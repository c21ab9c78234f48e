"""Usual frames, many at a time: the same by the compiled pass, by Python, and by the careful decoder and encoder."""

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hutong.bus.envelope.codecs import CODECS_BY_NUMBER
from hutong.wire.vertx import usual_frames
from hutong.wire.vertx.cluster_frames import (
    ADDRESS_BYTES_MAX,
    FRAME_BYTES_MAX,
    PING_CODEC,
    USER_CODEC,
    ClusterFrame,
    decode,
    encode,
    encode_ping,
)
from hutong.wire.vertx.usual_frames import (
    COUNT_MAX,
    NO_NUMBER,
    VALUE_CODECS,
    MakeFrame,
    TakeFrames,
    UsualFrame,
    python_make_frame,
    python_take_frames,
)
from hutong.wire.vertx.wire_versions import SENDER_BYTES_MAX, VERSION_2

NODE = "node-ü"
VERSION = VERSION_2.number
SENDER = VERSION_2.sender_bytes(NODE)
PREFIX = b"__hutong.reply."
TAKERS: list[TakeFrames] = [python_take_frames]
MAKERS: list[MakeFrame] = [python_make_frame]
if usual_frames._compiled is not None:
    TAKERS.append(usual_frames._compiled.take_frames)
    MAKERS.append(usual_frames._compiled.make_frame)
BODIES = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 64), 1 << 64), st.floats(), st.text(max_size=50),
    st.text(st.characters(), max_size=9), st.binary(max_size=50), st.just([1]), st.just({}), st.just(1j),
)  # fmt: skip


def take(data: bytes, count_max: int = 100, frame_bytes_max: int = FRAME_BYTES_MAX) -> tuple[list[UsualFrame], int]:
    """What all ways find."""
    found = [each(data, VERSION, SENDER, PREFIX, count_max, frame_bytes_max) for each in TAKERS]
    # NaN is no equal of itself.
    assert [repr(each) for each in found] == [repr(found[0])] * len(found)
    return found[0]


def make(address: str, number: int, body: Any) -> bytes | None:
    made = [each(VERSION, address, PREFIX, number, SENDER, body) for each in MAKERS]
    assert made == [made[0]] * len(made)
    return made[0]


@given(st.text(st.characters(), max_size=20), st.integers(-1, (1 << 63) - 1), BODIES)
@example("a" * ADDRESS_BYTES_MAX, NO_NUMBER, None)
@example("a" * (ADDRESS_BYTES_MAX + 1), NO_NUMBER, None)
@example("\ud800", 1, None)
@example("a", 0, -(1 << 31))
@example("a", 0, 1 << 63)
def test_what_is_made_is_what_the_careful_encoder_makes(address: str, number: int, body: Any) -> None:
    made = make(address, number, body)
    if made is None:
        return
    frame = decode(memoryview(made)[4:])
    reply_address = None if number == NO_NUMBER else f"{PREFIX.decode()}{number}"
    assert (frame.address, frame.sender, frame.reply_address, frame.is_send) == (address, NODE, reply_address, True)
    assert repr(CODECS_BY_NUMBER[frame.codec].decode(bytes(frame.body))) == repr(body)
    assert encode(frame) == made


def test_what_is_not_usual_is_left_to_the_careful_encoder() -> None:
    for body in ([], {}, 1 << 63, -(1 << 63) - 1, "\ud800", object(), bytes(FRAME_BYTES_MAX)):
        assert make("place", NO_NUMBER, body) is None
    for maker in MAKERS:
        assert maker(VERSION, "place", PREFIX, NO_NUMBER, b"n" * (SENDER_BYTES_MAX + 1), None) is None
        assert maker(VERSION, "place", b"p" * ADDRESS_BYTES_MAX, 1, SENDER, None) is None


FRAMES = st.builds(
    ClusterFrame,
    st.sampled_from([*CODECS_BY_NUMBER, USER_CODEC, 99]),
    st.one_of(
        st.text(st.characters(codec="utf-8"), max_size=9),
        st.from_regex(r"__hutong\.reply\.[0-9]{0,21}", fullmatch=True),
    ),
    st.sampled_from([NODE, NODE, NODE, "other"]),
    st.one_of(
        st.binary(max_size=9),
        st.binary(max_size=20).map(lambda data: len(data).to_bytes(4) + data),
        st.text(st.characters(codec="utf-8"), max_size=9).map(
            lambda text: len(text.encode()).to_bytes(4) + text.encode()
        ),
    ),
    st.one_of(st.none(), st.text(st.characters(codec="utf-8"), min_size=1, max_size=9)),
    st.sampled_from([(), (), (("a", "b"),)]),
    st.booleans(),
    st.just("name"),
)


@given(
    st.lists(FRAMES, max_size=6),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
    st.integers(0, 9),
)
def test_what_is_taken_is_what_the_careful_decoder_finds(
    frames: list[ClusterFrame], changes: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(b"".join([encode(frame) for frame in frames]))
    for at, value in changes:
        if data:
            data[at % len(data)] = value
    whole = bytes(data[: len(data) - cut])
    found, taken = take(whole)
    at = 0
    for codec, address, reply_address, body, is_send in found:
        end = at + 4 + int.from_bytes(whole[at : at + 4])
        frame = decode(memoryview(whole)[at + 4 : end])
        text = address if isinstance(address, str) else frame.address
        assert (codec, text, NODE, reply_address, is_send) == (
            frame.codec, frame.address, frame.sender, frame.reply_address, frame.is_send,
        )  # fmt: skip
        if isinstance(address, int):
            assert address == int(frame.address.removeprefix(PREFIX.decode()))
        raw = bytes(frame.body)
        assert repr(body) == repr(CODECS_BY_NUMBER[codec].decode(raw) if codec in VALUE_CODECS else raw)
        at = end
    assert at == taken


def test_frames_are_taken_up_to_one_that_is_not_whole_or_not_usual() -> None:
    usual = encode(ClusterFrame(9, "place", NODE, b"\0\0\0\1x", "reply"))
    for other in (
        encode(ClusterFrame(9, "place", NODE, b"\0\0\0\1x", None, (("a", "b"),))),
        encode(ClusterFrame(9, "place", "another", b"\0\0\0\1x")),
        encode(ClusterFrame(9, "place", NODE, b"\0\0\0\2x")),
        encode(ClusterFrame(9, "place", NODE, b"\0\0\0\1\xff")),
        encode(ClusterFrame(9, "__hutong.reply.", NODE, b"\0\0\0\1x")),
        encode(ClusterFrame(9, "__hutong.reply.1x", NODE, b"\0\0\0\1x")),
        encode(ClusterFrame(9, f"__hutong.reply.{10**19}", NODE, b"\0\0\0\1x")),
        encode(ClusterFrame(USER_CODEC, "place", NODE, b"", codec_name="own")),
        encode(ClusterFrame(PING_CODEC, "place", NODE)),
        encode_ping(NODE),
        b"\0\0\0\0" + usual,
        b"\xff\xff\xff\xff" + usual,
    ):
        assert take(usual + usual + other + usual)[1] == 2 * len(usual)
    for cut in range(1, len(usual) + 1):
        assert take(usual + usual[:-cut]) == ([(9, "place", "reply", "x", True)], len(usual))
    assert take(3 * usual, 2)[1] == 2 * len(usual)
    assert take(usual, 100, len(usual) - 5) == ([], 0)
    assert take(usual, -1) == ([], 0)


def test_one_call_takes_so_many_frames_at_most() -> None:
    one = encode(ClusterFrame(0, "a", NODE))
    assert len(take((COUNT_MAX + 5) * one, COUNT_MAX + 5)[0]) == COUNT_MAX


@pytest.mark.parametrize("maker", MAKERS)
def test_every_kind_of_number_keeps_its_value(maker: MakeFrame) -> None:
    for body in (0.0, -0.0, math.inf, 1e-300, -1, 1 << 40):
        made = maker(VERSION, "place", PREFIX, NO_NUMBER, SENDER, body)
        assert made is not None
        frame = decode(made[4:])
        assert repr(CODECS_BY_NUMBER[frame.codec].decode(bytes(frame.body))) == repr(body)


@pytest.mark.skipif(usual_frames._compiled is None, reason="the compiled pass is not built here")
def test_the_compiled_pass_refuses_other_arguments() -> None:
    compiled = usual_frames._compiled
    wrong: list[tuple[Any, ...]] = [
        (),
        (b"", 2, SENDER, PREFIX, 1),
        (b"", 2, SENDER, PREFIX, "1", 1),
        (b"", "2", SENDER, PREFIX, 1, 1),
        ("", 2, SENDER, PREFIX, 1, 1),
    ]
    for arguments in wrong:
        with pytest.raises(TypeError):
            compiled.take_frames(*arguments)
    wrong = [
        (),
        (2, "a", "p", 1, SENDER, None),
        (2, "a", PREFIX, "1", SENDER, None),
        ("2", "a", PREFIX, 1, SENDER, None),
        (2, "a", PREFIX, 1, None, None),
    ]
    for arguments in wrong:
        with pytest.raises(TypeError):
            compiled.make_frame(*arguments)
    with pytest.raises(OverflowError):
        compiled.take_frames(b"", 2, SENDER, PREFIX, 1 << 64, 1)
