"""Requests with keys of several shards: each part goes to its own coordinators, and the answers become one.

Strategy: keys in one place stay in one part, in their order, and a part is a whole request. Results have the names of
their keys, so they are put back in the order of the request. What is refused has its code in its results alone: the
code of the whole answer is for requests that are refused as a whole.

Knows nothing of coordinators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

from hutong.broker.handling.responses import PendingInParts
from hutong.foundation.waiting.pending import Pending
from hutong.wire.kafka.registry import APIS

PlaceT = TypeVar("PlaceT")


class _Fields(NamedTuple):
    """The list of questions and of results, and the key of each."""

    questions: str
    results: str
    key: str  # a question may also be the key itself


_BY_GROUP: Final = ("groups", "group_id")
_FIELDS: Final = {
    9: _Fields("groups", *_BY_GROUP),
    15: _Fields("groups", *_BY_GROUP),
    24: _Fields("transactions", "results_by_transaction", "transactional_id"),
    42: _Fields("groups_names", "results", "group_id"),
    65: _Fields("transactional_ids", "transaction_states", "transactional_id"),
    69: _Fields("group_ids", *_BY_GROUP),
    77: _Fields("group_ids", *_BY_GROUP),
    89: _Fields("group_ids", *_BY_GROUP),
    90: _Fields("groups", *_BY_GROUP),
}


def split(api_key: int, request: Any, places: Sequence[PlaceT], answer_at: Callable[[PlaceT, Any], Any]) -> Any:
    """The answer to a request whose keys have these places, in order. `answer_at` may give a `Pending`."""
    fields = _FIELDS[api_key]
    questions = getattr(request, fields.questions)
    pending = PendingInParts(APIS[api_key].response())
    key_of = attrgetter(fields.key)
    order = {question if isinstance(question, str) else key_of(question): at for at, question in enumerate(questions)}

    def answered(answer: Any) -> None:
        whole, results = pending.response, getattr(answer, fields.results)
        joined = [*getattr(whole, fields.results), *results]
        setattr(whole, fields.results, sorted(joined, key=lambda result: order[key_of(result)]))
        # Its handler has refused the part as a whole, as it does with all parts: the client lacks a right.
        if not results and hasattr(answer, "error_code"):
            whole.error_code = answer.error_code
        pending.settle_part()

    for place, own in _by_place(questions, places):
        pending.expect_part()
        part = copy(request)
        setattr(part, fields.questions, own)
        answer = answer_at(place, part)
        if isinstance(answer, Pending):
            answer.then(answered)
        else:
            answered(answer)
    return pending.answer()


def _by_place(questions: Sequence[Any], places: Sequence[PlaceT]) -> list[tuple[PlaceT, list[Any]]]:
    """The questions of each place. Places are few, and compared by what they are."""
    parts: list[tuple[PlaceT, list[Any]]] = []
    for place, question in zip(places, questions, strict=True):
        for known, own in parts:
            if known == place:
                own.append(question)
                break
        else:
            parts.append((place, [question]))
    return parts
