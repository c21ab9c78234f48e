"""Questions for spans and their answers: there and back, and what no node sends."""

import json
from typing import Any

import pytest

from hutong.foundation.errors import ProtocolError
from hutong.server.spans.messages import (
    ANSWER_BYTES_MAX,
    QUESTION_BYTES_MAX,
    SPANS_MAX,
    TEXT_CHARACTERS_MAX,
    TRACES_MAX,
    ShownSpan,
    SpansAnswer,
    decode_answer,
    decode_question,
    encode_answer,
    encode_question,
)
from hutong.server.spans.own_spans import shown_span
from hutong.tracing import kept
from hutong.tracing.kept import KeptSpan

TRACE, OTHER = "a" * 32, "b" * 32
SPAN: dict[str, Any] = {
    "trace": TRACE,
    "id": "1" * 16,
    "parent": None,
    "name": "<b>send</b>\u202e\u0000",
    "kind": "client",
    "begin_ms": 1.5,
    "duration_ms": 0.25,
    "error": None,
    "attributes": [["a", "b"]],
}


def span(name: str = "n", attributes: tuple[tuple[str, str], ...] = ()) -> ShownSpan:
    return ShownSpan(TRACE, "1" * 16, "2" * 16, name, "client", 1.5, 0.25, "broke", attributes)


def answered(**changes: Any) -> bytes:
    return json.dumps({"is_traced": True, "is_cut": False, "spans": [{**SPAN, **changes}]}).encode()


def test_there_and_back() -> None:
    assert decode_question(encode_question([TRACE, OTHER])).traces == (TRACE, OTHER)
    answer = SpansAnswer(True, False, (span(SPAN["name"]), span("second", (("a", "é"),))))
    assert decode_answer(encode_answer(answer), [TRACE]) == answer
    assert decode_answer(encode_answer(SpansAnswer()), [TRACE]) == SpansAnswer()
    assert decode_answer(answered(later_field={"x": [1]}), [TRACE]).spans[0].name == SPAN["name"]


def test_bounds_are_those_of_what_is_kept() -> None:
    assert TEXT_CHARACTERS_MAX == kept.TEXT_CHARACTERS_MAX
    most = (("x" * TEXT_CHARACTERS_MAX,) * 2,) * kept.ATTRIBUTES_MAX
    answer = SpansAnswer(True, False, (span("x" * TEXT_CHARACTERS_MAX, most),))
    assert decode_answer(encode_answer(answer), [TRACE]) == answer
    assert len(encode_question([TRACE] * TRACES_MAX)) <= QUESTION_BYTES_MAX


def test_too_many_bytes_are_fewer_spans() -> None:
    large = span("n", (("x" * TEXT_CHARACTERS_MAX, "\u0001" * TEXT_CHARACTERS_MAX),) * kept.ATTRIBUTES_MAX)
    content = encode_answer(SpansAnswer(True, False, (large,) * SPANS_MAX))
    found = decode_answer(content, [TRACE])
    assert len(content) <= ANSWER_BYTES_MAX
    assert found.is_cut
    assert 0 < len(found.spans) < SPANS_MAX


def test_a_kept_span_is_shown_within_the_bounds() -> None:
    odd = KeptSpan(10, 1, 2, "lone \ud800", "client", 2_500_000, 1_000_000, "\udfff", (("\ud800", "é"),))
    shown = shown_span(odd)
    assert (shown.trace, shown.id, shown.parent) == (f"{10:032x}", f"{1:016x}", f"{2:016x}")
    assert (shown.name, shown.error, shown.attributes) == ("lone ?", "?", (("?", "é"),))
    assert (shown.begin_ms, shown.duration_ms) == (2.5, 0), "a clock that was set back"
    assert decode_answer(encode_answer(SpansAnswer(True, False, (shown,))), [shown.trace]).spans == (shown,)


@pytest.mark.parametrize(
    "changes",
    [
        {"trace": OTHER},
        {"trace": TRACE + "\n"},
        {"id": "1" * 15},
        {"id": "<script>alert(1)"},
        {"parent": "x" * 16},
        {"parent": 7},
        {"name": "x" * (TEXT_CHARACTERS_MAX + 1)},
        {"name": None},
        {"kind": "x" * 21},
        {"begin_ms": -1},
        {"begin_ms": 1e15},
        {"begin_ms": float("nan")},
        {"begin_ms": float("inf")},
        {"begin_ms": "1"},
        {"duration_ms": -0.1},
        {"error": "x" * (TEXT_CHARACTERS_MAX + 1)},
        {"attributes": [["a", "b"]] * 17},
        {"attributes": [["a"]]},
        {"attributes": [["a", 1]]},
        {"attributes": [["a", "x" * (TEXT_CHARACTERS_MAX + 1)]]},
        {"attributes": {"a": "b"}},
        {"name": "\ud800"},
    ],
)
def test_spans_that_no_node_sends(changes: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        decode_answer(answered(**changes), [TRACE])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"spans": 1}',
        b'{"spans": [1]}',
        b'{"is_traced": "yes"}',
        b'{"spans": [{}]}',
        b'\xff{"is_traced": true}',
        b'{"deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"is_cut": true}' + b" " * ANSWER_BYTES_MAX,
        json.dumps({"is_traced": True, "spans": [SPAN] * (SPANS_MAX + 1)}).encode(),
    ],
)
def test_answers_that_no_node_sends(content: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_answer(content, [TRACE])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"traces": []}',
        b'{"traces": ["x"]}',
        b'{"traces": "' + TRACE.encode() + b'"}',
        json.dumps({"traces": [TRACE.upper()]}).encode(),
        json.dumps({"traces": [f"{TRACE}\n"]}).encode(),
        json.dumps({"traces": [TRACE] * (TRACES_MAX + 1)}).encode(),
        json.dumps({"traces": [TRACE]}).encode() + b" " * QUESTION_BYTES_MAX,
    ],
)
def test_questions_that_no_node_asks(content: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_question(content)
