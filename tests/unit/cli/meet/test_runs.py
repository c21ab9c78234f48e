"""Runs: the quick way makes and recognises the same bytes as the careful one, however they are mixed, cut or broken."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hutong.cli.meet.lines import Line, encode_line
from hutong.cli.meet.runs import Phrase, Run, RunDecoder

A, BB, C = "甲", "乙乙", "丙"
PHRASES = (Phrase(A), Phrase(BB), Phrase(C), Phrase(A, BB))
LAST = (1 << 32) - 1


def carefully(phrase: Phrase, first: int, times: int) -> bytes:
    return b"".join(encode_line(serial, text) for serial in range(first, first + times) for text in phrase.texts)


@settings(deadline=None)
@given(st.sampled_from(PHRASES), st.integers(0, LAST), st.integers(0, 300))
@example(PHRASES[3], 65_000, 2_000)  # over the end of a block
@example(PHRASES[0], (1 << 24) - 3, 6)
@example(PHRASES[0], LAST - 2, 3)
@example(PHRASES[1], 65_535, 2)
def test_a_run_is_the_lines_it_stands_for(phrase: Phrase, first: int, times: int) -> None:
    times = min(times, LAST + 1 - first)
    assert bytes(phrase.encode(first, times)) == carefully(phrase, first, times)


def test_a_run_may_be_longer_than_a_block() -> None:
    assert bytes(PHRASES[0].encode(60_000, 140_000)) == carefully(PHRASES[0], 60_000, 140_000)


def lines(runs: Iterable[Run]) -> list[Line]:
    return [line for run in runs for line in run.lines()]


def cut(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    at = [0, *sorted(place % (len(data) + 1) for place in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(at)]


def heard(decoder: RunDecoder, chunks: Iterable[bytes]) -> tuple[list[Line], str, int]:
    said = lines(run for chunk in chunks for run in decoder.receive_data(chunk))
    return said, str(decoder.failure), decoder.bytes_held


RUNS = st.lists(
    st.tuples(st.sampled_from(PHRASES), st.sampled_from([0, 1, 250, 65_530, LAST - 40]), st.integers(1, 40)), max_size=8
)


@settings(deadline=None)
@given(RUNS, st.lists(st.integers(0, 10_000), max_size=8))
def test_both_ways_hear_the_same_lines_wherever_the_bytes_are_cut(
    runs: list[tuple[Phrase, int, int]], cuts: list[int]
) -> None:
    data = b"".join(bytes(phrase.encode(first, times)) for phrase, first, times in runs)
    said = lines(Run(*run) for run in runs)
    assert heard(RunDecoder(PHRASES), cut(data, cuts)) == (said, "None", 0)
    assert heard(RunDecoder(PHRASES, line_by_line=True), cut(data, cuts)) == (said, "None", 0)


@settings(deadline=None)
@given(RUNS, st.lists(st.integers(0, 10_000), max_size=8), st.integers(0, 1 << 20), st.integers(0, 255))
def test_both_ways_fail_alike_at_a_broken_byte(
    runs: list[tuple[Phrase, int, int]], cuts: list[int], broken_at: int, broken: int
) -> None:
    data = bytearray(b"".join(bytes(phrase.encode(first, times)) for phrase, first, times in runs))
    if data:
        data[broken_at % len(data)] = broken
    whole = heard(RunDecoder(PHRASES), [bytes(data)])
    assert heard(RunDecoder(PHRASES), cut(bytes(data), cuts)) == whole
    assert heard(RunDecoder(PHRASES, line_by_line=True), cut(bytes(data), cuts)) == whole


@settings(deadline=None)
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_any_bytes_are_lines_or_a_failure(data: bytes, cuts: list[int]) -> None:
    whole = heard(RunDecoder(PHRASES), [data])
    assert heard(RunDecoder(PHRASES, line_by_line=True), cut(data, cuts)) == whole


def test_lines_that_belong_together_are_one_run() -> None:
    pair = PHRASES[3]
    data = carefully(pair, 5, 1_000) + carefully(PHRASES[0], 1_005, 3) + carefully(PHRASES[0], 2_000, 1)
    found = [(run.phrase.texts, run.first, run.times) for run in RunDecoder(PHRASES).receive_data(data)]
    assert found == [((A, BB), 5, 1_000), ((A,), 1_005, 3), ((A,), 2_000, 1)]


def test_one_line_at_a_time_is_one_line_at_a_time() -> None:
    found = RunDecoder(PHRASES, line_by_line=True).receive_data(carefully(PHRASES[3], 0, 2))
    assert [(run.phrase.texts, run.first, run.times) for run in found] == [
        ((A,), 0, 1),
        ((BB,), 0, 1),
        ((A,), 1, 1),
        ((BB,), 1, 1),
    ]


@pytest.mark.parametrize("line_by_line", [False, True])
def test_an_unknown_text_is_named_and_nothing_is_heard_after_it(line_by_line: bool) -> None:
    decoder = RunDecoder(PHRASES, line_by_line=line_by_line)
    data = carefully(PHRASES[0], 0, 2) + encode_line(9, "丁") + carefully(PHRASES[0], 2, 1)
    assert heard(decoder, [data]) == ([Line(0, A), Line(1, A)], "serial 9: unexpected '丁'", 0)
    assert decoder.receive_data(carefully(PHRASES[0], 2, 1)) == []


def test_an_unfinished_line_is_held_and_no_more() -> None:
    decoder = RunDecoder(PHRASES)
    line = encode_line(3, A)
    for number in range(1, len(line)):
        assert decoder.receive_data(line[number - 1 : number]) == []
        assert decoder.bytes_held == number
    assert lines(decoder.receive_data(memoryview(line)[-1:])) == [Line(3, A)]
    assert decoder.bytes_held == 0
