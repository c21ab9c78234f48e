"""A side without a connection: what is asked and answered, when all is done, and which line is not due."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hutong.cli.meet.lines import encode_line
from hutong.cli.meet.machine import L1, L2, L4, LI, MEETINGS_MAX, Z0, Z3, Z5, ZHANG, Part, Side

WAYS = pytest.mark.parametrize("line_by_line", [False, True])


def said(*lines: tuple[int, str]) -> bytes:
    return b"".join(encode_line(serial, text) for serial, text in lines)


def answered(side: Side, data: bytes) -> bytes:
    return b"".join(side.receive_data(data))


def converse(zhang: Side, li: Side, random: Random) -> tuple[bytes, bytes]:
    """Pass what each says to the other, cut anywhere; returns all that Zhang and Li said."""
    waiting = {zhang: b"", li: b""}  # to be heard
    spoken = {zhang: b"", li: b""}
    while not (zhang.is_done and li.is_done):
        for side, other in ((zhang, li), (li, zhang)):
            cut = random.randrange(len(waiting[side]) + 1)
            data, waiting[side] = waiting[side][:cut], waiting[side][cut:]
            words = answered(side, data) + bytes(side.ask(random.randrange(200)))
            assert side.failure is None
            waiting[other] += words
            spoken[side] += words
    assert waiting == {zhang: b"", li: b""}
    return spoken[zhang], spoken[li]


@settings(deadline=None)
@given(st.integers(0, 60), st.randoms(use_true_random=False), st.booleans(), st.booleans())
def test_every_line_of_every_meeting_is_said_and_heard(
    meetings: int, random: Random, zhang_alone: bool, li_alone: bool
) -> None:
    zhang = Side(ZHANG, meetings, line_by_line=zhang_alone)
    li = Side(LI, meetings, line_by_line=li_alone)
    by_zhang, by_li = converse(zhang, li, random)
    for serial in range(meetings):
        assert all(by_zhang.count(encode_line(serial, text)) == 1 for text in (Z0, Z3, Z5))
        assert all(by_li.count(encode_line(serial, text)) == 1 for text in (L1, L2, L4))
    assert len(by_zhang) == meetings * (27 + 38 + 38)
    assert len(by_li) == meetings * (17 + 26 + 32)
    assert zhang.heard_total == li.heard_total == 3 * meetings
    assert zhang.missing == li.missing == {}


@WAYS
def test_zhang_answers_what_li_asks(line_by_line: bool) -> None:
    zhang = Side(ZHANG, 2, line_by_line=line_by_line)
    assert zhang.ask(1_000) == said((0, Z0), (1, Z0))
    assert zhang.ask(1_000) == b""
    assert answered(zhang, said((0, L2), (0, L4), (0, L1))) == said((0, Z3), (0, Z5))
    assert answered(zhang, said((1, L2))) == said((1, Z3))
    assert zhang.missing == {L1: 1, L4: 1}
    assert not zhang.is_done
    assert answered(zhang, said((1, L4), (1, L1))) == said((1, Z5))
    assert zhang.is_done


@WAYS
def test_li_answers_what_zhang_asks(line_by_line: bool) -> None:
    li = Side(LI, 2, line_by_line=line_by_line)
    assert li.ask(1) == said((0, L2), (0, L4))
    assert answered(li, said((0, Z0), (1, Z0), (0, Z3), (0, Z5), (1, Z3), (1, Z5))) == said((0, L1), (1, L1))
    assert not li.is_done, "its last questions are not said yet"
    assert li.ask(1) == said((1, L2), (1, L4))
    assert li.is_done


HOSTILE = {
    "repeated": (said((0, L1), (1, L1), (1, L1)), f"serial 1 of {L1!r} where 2 is due"),
    "repeated within a run": (said((0, L2), (0, L4), (0, L2), (0, L4)), f"serial 0 of {L2!r} where 1 is due"),
    "left out": (said((0, L1), (2, L1)), f"serial 2 of {L1!r} where 1 is due"),
    "left out of a pair": (said((0, L2), (1, L2), (1, L4)), f"serial 1 of {L4!r} where 0 is due"),
    "too far": (said((0, L1), (1, L1), (2, L1), (3, L1)), f"serial 3 of {L1!r} is out of range: 3 meetings"),
    "far too far": (said(((1 << 32) - 1, L1)), f"serial 4294967295 of {L1!r} is out of range: 3 meetings"),
    "unknown": (said((0, L1), (1, "晚上好")), "serial 1: unexpected '晚上好'"),
    "the neighbour's own": (said((0, Z3)), f"serial 0: unexpected {Z3!r}"),
    "too short": (said((0, L1)) + b"\0\0\0\3...", "a line of 3 bytes; 4 to 1024 are allowed"),
    "too long": (said((0, L1)) + b"\xff\xff\xff\xff", "a line of 4294967295 bytes; 4 to 1024 are allowed"),
    "not UTF-8": (b"\0\0\0\5\0\0\0\0\xff", "serial 0: the text is not UTF-8 (invalid start byte)"),
}


@WAYS
@pytest.mark.parametrize("name", HOSTILE)
def test_a_line_that_is_not_due_is_named_however_it_comes(name: str, line_by_line: bool) -> None:
    data, failure = HOSTILE[name]
    for size in (1, 7, 40, len(data)):
        zhang = Side(ZHANG, 3, line_by_line=line_by_line)
        for at in range(0, len(data), size):
            zhang.receive_data(data[at : at + size])
        assert str(zhang.failure) == failure
        assert zhang.receive_data(said((1, L1), (2, L1))) == []
        assert not zhang.is_done


@settings(deadline=None)
@given(st.sampled_from([ZHANG, LI]), st.randoms(use_true_random=False), st.lists(st.integers(0, 3_000), max_size=6))
def test_both_ways_answer_and_fail_alike(part: Part, random: Random, cuts: list[int]) -> None:
    """Lines that are mostly due, with one now and then that is not."""
    texts = [text for phrase in part.answers for text in phrase.texts]
    due = dict.fromkeys(texts, 0)
    data = b""
    for _ in range(random.randrange(60)):
        text = random.choice(texts)
        for _ in range(random.randrange(1, 6)):
            data += encode_line(max(0, due[text] + random.choices((0, -1, 1), (40, 1, 1))[0]), text)
            due[text] += 1
    places = [0, *sorted(place % (len(data) + 1) for place in cuts), len(data)]
    ways = []
    for line_by_line in (False, True):
        side = Side(part, 90, line_by_line=line_by_line)
        words = b"".join(answered(side, data[start:end]) for start, end in pairwise(places))
        ways.append((words, str(side.failure), side.heard_total, side.missing))
    assert ways[0] == ways[1]


def test_questions_come_in_blocks_of_the_size_asked_for() -> None:
    li = Side(LI, 100)
    assert len(li.ask(1_000)) == 1_000 // 58 * 58
    assert len(li.ask(0)) == 58
    assert li.asked == 1_000 // 58 + 1


@pytest.mark.parametrize("meetings", [-1, MEETINGS_MAX + 1])
def test_so_many_meetings_are_not_possible(meetings: int) -> None:
    with pytest.raises(ValueError, match="meetings"):
        Side(ZHANG, meetings)


def test_no_meeting_at_all_is_done_at_once() -> None:
    assert Side(ZHANG, 0).is_done
    assert Side(LI, 0).ask(100) == b""
