"""Requests that are refused as a whole, with one code: it has the place of each result (Kafka's getErrorResponse).

Strategy: a response follows the shape of its request, so each API has a row that says which list of results follows
which list of questions, and what is copied. The code goes into every result, and into the response itself where it has
a place for one.

Knows nothing of why a request is refused. Used among several nodes alone: for what another node coordinates, and for
changes of the metadata that could not be forwarded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from hutong.wire.kafka.registry import APIS
from hutong.wire.kafka.schema import Array, Struct, rows_of

_CODES: Final = ("error_code", "partition_error_code")
_UNKNOWN: Final = ("committed_offset", "committed_leader_epoch", "num_partitions", "replication_factor")
"""Numbers that are -1 where nothing is known."""


class _Results(NamedTuple):
    """A list of results. `copied` are fields of a question, or the one field that a question is if it has none."""

    name: str
    questions: Callable[[Any], Sequence[Any] | None]
    copied: tuple[str, ...] = ()
    inner: _Results | None = None


_BY_PARTITION: Final = _Results("partitions", attrgetter("partitions"), ("partition_index",))
_BY_TOPIC: Final = _Results("topics", attrgetter("topics"), ("name", "topic_id"), _BY_PARTITION)
_BY_RESOURCE: Final = _Results("responses", attrgetter("resources"), ("resource_type", "resource_name"))
_ADDED: Final = _Results("results_by_partition", attrgetter("partitions"), ("partition_index",))


def _named(request: Any) -> list[str]:
    return list(dict.fromkeys(item.name for item in (*request.deletions, *request.upsertions)))


_ROWS: Final[Mapping[int, tuple[_Results, ...]]] = {
    8: (_BY_TOPIC,),
    9: (
        _Results("groups", attrgetter("groups"), ("group_id",)),
        _Results(
            "topics",
            attrgetter("topics"),
            ("name",),
            _Results("partitions", attrgetter("partition_indexes"), ("partition_index",)),
        ),
    ),
    15: (_Results("groups", attrgetter("groups"), ("group_id",)),),
    19: (_Results("topics", attrgetter("topics"), ("name",)),),
    20: (
        _Results("responses", lambda request: request.topics or None, ("name", "topic_id")),
        _Results("responses", lambda request: request.topic_names or None, ("name",)),
    ),
    24: (
        _Results("results_by_topic_v3_and_below", attrgetter("v3_and_below_topics"), ("name",), _ADDED),
        _Results(
            "results_by_transaction",
            attrgetter("transactions"),
            ("transactional_id",),
            _Results("topic_results", attrgetter("topics"), ("name",), _ADDED),
        ),
    ),
    28: (_BY_TOPIC,),
    30: (_Results("results", attrgetter("creations")),),
    31: (_Results("filter_results", attrgetter("filters")),),
    33: (_BY_RESOURCE,),
    37: (_Results("results", attrgetter("topics"), ("name",)),),
    42: (_Results("results", attrgetter("groups_names"), ("group_id",)),),
    44: (_BY_RESOURCE,),
    49: (_Results("entries", attrgetter("entries"), ("entity",)),),
    51: (_Results("results", _named, ("user",)),),
    65: (_Results("transaction_states", attrgetter("transactional_ids"), ("transactional_id",)),),
    69: (_Results("groups", attrgetter("group_ids"), ("group_id",)),),
    77: (_Results("groups", attrgetter("group_ids"), ("group_id",)),),
    89: (_Results("groups", attrgetter("group_ids"), ("group_id",)),),
    90: (_Results("groups", attrgetter("groups"), ("group_id",)),),
}


def refused_whole(api_key: int, request: Any, code: int) -> Any:
    """The response that refuses everything in a request."""
    table = APIS[api_key].response
    response = table()
    _put_code(response, code)
    for results in _ROWS.get(api_key, ()):
        _fill(response, table, request, results, code)
    return response


def _fill(parent: Any, table: type[Any], asked: Any, results: _Results, code: int) -> None:
    questions = results.questions(asked)
    if questions is None:
        return
    row = dict(rows_of(table))[results.name].wire_type
    assert isinstance(row, Array), "results are a list"
    assert isinstance(row.element, Struct), "results are tables"
    entries = []
    for question in questions:
        entry = row.element.table()
        for name in results.copied:
            is_scalar = isinstance(question, str | int)
            # A question in an older shape of the request has not all of the fields.
            if is_scalar or hasattr(question, name):
                setattr(entry, name, question if is_scalar else getattr(question, name))
        _put_code(entry, code)
        if results.inner is not None:
            _fill(entry, row.element.table, question, results.inner, code)
        entries.append(entry)
    setattr(parent, results.name, entries)


def _put_code(entry: Any, code: int) -> None:
    for name in _CODES:
        if hasattr(entry, name):
            setattr(entry, name, code)
    if hasattr(entry, "error_message"):
        entry.error_message = None
    for name in _UNKNOWN:
        if hasattr(entry, name):
            setattr(entry, name, -1)
