"""Lines are the same however their bytes are cut, and a line that is too long ends them at the same place."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hutong.reactor.frames.lines import LineFraming


def read(framing: LineFraming, pieces: list[bytes]) -> list[bytes]:
    return [bytes(line) for piece in pieces for line in framing.receive_data(memoryview(piece))]


@given(st.binary(max_size=60).map(lambda data: data.replace(b"a", b"\n")), st.lists(st.integers(0, 60)))
def test_the_cuts_make_no_difference(data: bytes, cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    whole, cut = LineFraming(20), LineFraming(20)
    pieces = [data[start:stop] for start, stop in pairwise(bounds)]
    assert read(cut, pieces) == read(whole, [data])
    assert (cut.failure is None) == (whole.failure is None)
    assert cut.bytes_held == whole.bytes_held
    if whole.failure is None:
        assert whole.bytes_held == len(data) - (data.rfind(b"\n") + 1)


def test_a_line_loses_its_newline_and_the_return_before_it() -> None:
    assert read(LineFraming(10), [b"one\r\ntwo\n\n\rthree\r", b"\n"]) == [b"one", b"two", b"", b"\rthree"]


def test_lines_before_one_that_is_too_long_are_handed_out() -> None:
    framing = LineFraming(3)
    assert read(framing, [b"abc\nabcd\nab\n"]) == [b"abc"]
    assert str(framing.failure) == "a line of more than 3 bytes"
    assert framing.bytes_held == 0
    assert framing.receive_data(b"more\n") == []


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    framing = LineFraming(3)
    assert read(framing, [b"ab", b"c"]) == []
    assert framing.failure is None
    framing.receive_data(b"d")
    assert framing.failure is not None
