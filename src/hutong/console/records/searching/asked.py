"""A search as a query says it.

q=TEXT, in=anywhere|key|value|headers, regex, case    a text, or with `regex` an expression of RE2
path=CONDITION, key_path=CONDITION                    of the value's and the key's JSON; one a line
partitions=0,1, offset_begin, offset_end, time_begin_ms, time_end_ms; ends are not included
order=newest|oldest
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hutong.console.limits import CONDITIONS_MAX
from hutong.console.records.paging.asked import NEWEST, NUMBER_MAX, OLDEST, partitions_asked
from hutong.console.records.searching.conditions import (
    ANYWHERE,
    KEY,
    OFFSET_END,
    PLACES,
    VALUE,
    Conditions,
    TextCondition,
)
from hutong.console.records.searching.json_path import JsonCondition, parse_json_condition
from hutong.console.records.searching.patterns import compiled
from hutong.console.records.searching.refusals import WrongSearch
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from hutong.web.requests import WebRequest


@dataclass(frozen=True, slots=True)
class AskedSearch:
    """The conditions, and the order in which records are looked at."""

    conditions: Conditions
    is_newest_first: bool


def asked_search(request: WebRequest) -> AskedSearch:
    """Raises WebRefusal(400)."""
    order = request.query.get("order", NEWEST)
    if order not in (NEWEST, OLDEST):
        raise WebRefusal(400, f"order is {NEWEST} or {OLDEST}")
    try:
        texts = _texts(request)
        paths = _paths(request)
    except WrongSearch as error:
        raise WebRefusal(400, f"The search is not understood: {error}.") from None
    conditions = Conditions(
        texts,
        paths,
        partitions_asked(request.query.get("partitions", "")),
        request.integer("offset_begin", 0, 0, NUMBER_MAX),
        request.integer("offset_end", OFFSET_END, 0, OFFSET_END),
        _time(request, "time_begin_ms"),
        _time(request, "time_end_ms"),
    )
    return AskedSearch(conditions, order == NEWEST)


def _texts(request: WebRequest) -> tuple[TextCondition, ...]:
    words, place = request.query.get("q", ""), request.query.get("in", ANYWHERE)
    if place not in PLACES:
        raise WrongSearch(f"in is one of {', '.join(PLACES)}")
    if not words:
        return ()
    pattern = compiled(words, ignores_case=not request.flag("case"), is_literal=not request.flag("regex"))
    return (TextCondition(pattern, place),)


def _paths(request: WebRequest) -> tuple[tuple[str, JsonCondition], ...]:
    written = [
        (place, line)
        for place, name in ((VALUE, "path"), (KEY, "key_path"))
        for line in request.query.get(name, "").splitlines()
        if line.strip()
    ]
    if len(written) > CONDITIONS_MAX:
        raise WrongSearch(f"a search has at most {CONDITIONS_MAX} conditions on paths")
    return tuple((place, parse_json_condition(line)) for place, line in written)


def _time(request: WebRequest, name: str) -> int | None:
    return request.integer(name, 0, 0, NUMBER_MAX) if name in request.query else None
