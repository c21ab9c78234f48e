"""The question of a node for the spans of traces that another node keeps, and the answer, as JSON.

Strategy: both sides are nodes of one cluster, and each still reads what comes as if a stranger had sent it. Every text,
list and number has a bound, and so has the whole; a span of a trace that nobody asked for is an error.

Pure. What no node sends is a ProtocolError.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from hutong.foundation.errors import ProtocolError

T = TypeVar("T", "SpansQuestion", "SpansAnswer")
TRACES_MAX: Final = 20
"""Of one question."""
SPANS_MAX: Final = 500
"""Of one answer."""
QUESTION_BYTES_MAX: Final = 2 * 1024
ANSWER_BYTES_MAX: Final = 512 * 1024
ATTRIBUTES_MAX: Final = 16  # of a span, as `tracing.kept` keeps them; that room needs an extra
TEXT_CHARACTERS_MAX: Final = 300
KIND_CHARACTERS_MAX: Final = 20
TIME_MS_MAX: Final = 1e14  # beyond the year 5000; a browser's dates end at 8.64e15

TraceId = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
SpanId = Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")]
Text = Annotated[str, Meta(max_length=TEXT_CHARACTERS_MAX)]
TimeMs = Annotated[float, Meta(ge=0, le=TIME_MS_MAX)]


class ShownSpan(msgspec.Struct, frozen=True):
    """A span as the console shows it. Times are milliseconds, the first one since 1970."""

    trace: TraceId
    id: SpanId
    parent: SpanId | None
    name: Text
    kind: Annotated[str, Meta(max_length=KIND_CHARACTERS_MAX)]
    begin_ms: TimeMs
    duration_ms: TimeMs
    error: Text | None
    attributes: Annotated[tuple[tuple[Text, Text], ...], Meta(max_length=ATTRIBUTES_MAX)]


class SpansQuestion(msgspec.Struct, frozen=True):
    """The traces, by their ids in hex."""

    traces: Annotated[tuple[TraceId, ...], Meta(min_length=1, max_length=TRACES_MAX)]


class SpansAnswer(msgspec.Struct, frozen=True):
    """`is_traced`: the node keeps spans at all. `is_cut`: it has more of these traces than are here."""

    is_traced: bool = False
    is_cut: bool = False
    spans: Annotated[tuple[ShownSpan, ...], Meta(max_length=SPANS_MAX)] = ()


def encode_question(traces: Sequence[str]) -> bytes:
    return msgspec.json.encode(SpansQuestion(tuple(traces)))


def decode_question(content: bytes) -> SpansQuestion:
    """Raises ProtocolError."""
    return _decoded(content, SpansQuestion, QUESTION_BYTES_MAX)


def encode_answer(answer: SpansAnswer) -> bytes:
    """The answer, with fewer spans where they have too many bytes."""
    content = msgspec.json.encode(answer)
    while len(content) > ANSWER_BYTES_MAX:
        answer = SpansAnswer(answer.is_traced, True, answer.spans[: len(answer.spans) // 2])
        content = msgspec.json.encode(answer)
    return content


def decode_answer(content: bytes, traces: Collection[str]) -> SpansAnswer:
    """The answer to a question for these traces. Raises ProtocolError."""
    answer = _decoded(content, SpansAnswer, ANSWER_BYTES_MAX)
    if any(span.trace not in traces for span in answer.spans):
        raise ProtocolError("spans of a trace that was not asked for")
    return answer


def _decoded(content: bytes, kind: type[T], bytes_max: int) -> T:
    if len(content) > bytes_max:
        raise ProtocolError(f"{len(content)} bytes about spans; {bytes_max} are allowed")
    try:
        return msgspec.json.decode(content, type=kind)
    # UnicodeDecodeError is a ValueError, and deep nesting in a field that nobody knows is a RecursionError.
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"this is nothing about spans: {error}") from None
