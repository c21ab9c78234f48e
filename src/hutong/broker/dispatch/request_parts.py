"""Long requests cut into parts that are handled one after the other, and their answers put together again.

Strategy: some requests are lists of questions that have nothing to do with each other; a part has PART_QUESTIONS of
them, and is a whole request of its own. A topic whose partitions go to two parts is one topic in the answer. Requests
of other kinds, and those where a question decides on all others, are one part.

Pure. Knows nothing of handlers, nor of when a part is handled.
"""

from __future__ import annotations

from copy import copy
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hutong.wire.kafka.apis.k00_produce import ProduceRequest, ProduceResponse
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsRequest
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest
from hutong.wire.kafka.apis.k08_offset_commit import OffsetCommitRequest
from hutong.wire.kafka.apis.k09_offset_fetch import OffsetFetchRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PART_QUESTIONS: Final = 200
"""Handled in 1 to 2 ms (measured: 2 to 8 us each)."""
WHOLE_QUESTIONS_MAX: Final = 500
"""Of a request that is decoded on the loop and handled at once."""
PRODUCE_PART_QUESTIONS: Final = 250
WHOLE_PRODUCE_MAX: Final = 1_000
"""Elements of a Produce that are appended at once, and so flushed together (measured: 5 to 10 us each)."""
COMMIT_QUESTIONS: Final = 2_000
"""Of a commit, which takes 1 us for each of them, and waits for the disk after each part."""
PRODUCE_KEY: Final = 0


class _List(NamedTuple):
    """The fields of a request that is a list of questions without lists of their own, and of its answer."""

    api_key: int
    questions: tuple[str, ...]  # the first that is not empty counts
    answers: str
    size: int = PART_QUESTIONS
    name_of: Callable[[Any], Any] | None = None  # where one that is named twice is refused, or answered once


def _itself(question: Any) -> Any:
    return question


def _topic_of(question: Any) -> Any:
    """A topic to be deleted: until version 5 its name, then its name or its id."""
    return question if isinstance(question, str) else (question.name, question.topic_id)


_RESOURCE: Final = attrgetter("resource_type", "resource_name")
_LISTS: Final = {  # by name, since most nodes never import most of these
    "DescribeGroups": _List(15, ("groups",), "groups"),
    "CreateTopics": _List(19, ("topics",), "topics", 40, attrgetter("name")),
    "DeleteTopics": _List(20, ("topics", "topic_names"), "responses", 40, _topic_of),
    "DescribeConfigs": _List(32, ("resources",), "results", 25),
    "AlterConfigs": _List(33, ("resources",), "responses", 60, _RESOURCE),
    "CreatePartitions": _List(37, ("topics",), "results", 40, attrgetter("name")),
    "DeleteGroups": _List(42, ("groups_names",), "results", PART_QUESTIONS, _itself),
    "IncrementalAlterConfigs": _List(44, ("resources",), "responses", 60, _RESOURCE),
    "ConsumerGroupDescribe": _List(69, ("group_ids",), "groups"),
    "ShareGroupDescribe": _List(77, ("group_ids",), "groups"),
}
"""Measured: 75 us to create a topic and as much to apply it, 80 to describe the settings of one, 55 to alter them, 4 to
describe a group."""
_DIVISIBLE: Final = frozenset({PRODUCE_KEY, 2, 3, 8, 9, *(each.api_key for each in _LISTS.values())})
_METADATA_BY_ID_FROM: Final = 12
_GROUPS_FROM: Final = 8
_NO_ID: Final = bytes(16)


def parts_of(request: Any, api_version: int) -> list[Any]:
    """Requests that ask together what this one asks, in order."""
    match request:
        case MetadataRequest():
            return _metadata_parts(request, api_version)
        case ProduceRequest():
            parts = _cut(request.topic_data, "partition_data", PRODUCE_PART_QUESTIONS)
            return [_with(request, topic_data=part) for part in parts]
        case ListOffsetsRequest():
            return [_with(request, topics=part) for part in _cut(request.topics, "partitions", PART_QUESTIONS)]
        case OffsetCommitRequest():
            return [_with(request, topics=part) for part in _cut(request.topics, "partitions", COMMIT_QUESTIONS)]
        case OffsetFetchRequest() if api_version >= _GROUPS_FROM:
            return [
                _with(request, groups=[group if topics is None else _with(group, topics=topics)])
                for group in request.groups
                for topics in _cut_asked(group.topics)
            ]
        case OffsetFetchRequest():
            return [_with(request, topics=topics) for topics in _cut_asked(request.topics)]
    known = _list_of(request)
    return [request] if known is None else _list_parts(request, known)


def has_many(request: Any) -> bool:
    """Return True if a decoded request has too many elements to be handled at once."""
    match request:
        case ProduceRequest():
            return elements_in(request) > WHOLE_PRODUCE_MAX
        case MetadataRequest() | ListOffsetsRequest() | OffsetCommitRequest() | OffsetFetchRequest():
            return elements_in(request) > WHOLE_QUESTIONS_MAX
    known = _list_of(request)
    return known is not None and elements_in(request) > 2 * known.size


def elements_in(request: Any) -> int:
    """Topics and partitions of a divisible request; 0 where it has no list of them."""
    match request:
        case ProduceRequest():
            return sum(1 + len(topic.partition_data) for topic in request.topic_data)
        case MetadataRequest():
            return len(request.topics or ())
        case ListOffsetsRequest() | OffsetCommitRequest():
            return sum(1 + len(topic.partitions) for topic in request.topics)
        case OffsetFetchRequest():
            topics = [*(request.topics or ()), *(topic for group in request.groups for topic in group.topics or ())]
            return len(request.groups) + sum(1 + len(topic.partition_indexes) for topic in topics)
    known = _list_of(request)
    return 0 if known is None else len(getattr(request, _questions_of(request, known)))


def is_divisible(api_key: int) -> bool:
    """Return True if requests of this kind may have more than one part."""
    return api_key in _DIVISIBLE


def joined(answers: Sequence[Any]) -> Any:
    """The answer to the whole of a request, of those to its parts; they are used up."""
    whole = answers[0]
    for answer in answers[1:]:
        if getattr(answer, "throttle_time_ms", 0):
            whole.throttle_time_ms = max(whole.throttle_time_ms, answer.throttle_time_ms)
        known = _LISTS.get(type(answer).__name__.removesuffix("Response"))
        if known is not None:
            getattr(whole, known.answers).extend(getattr(answer, known.answers))
            continue
        if isinstance(whole, ProduceResponse):
            _join_topics(whole.responses, answer.responses, "partition_responses")
        elif getattr(whole, "groups", None):
            _join_groups(whole.groups, answer.groups)
        else:
            _join_topics(whole.topics, answer.topics)
    return whole


def _list_of(request: Any) -> _List | None:
    return _LISTS.get(type(request).__name__.removesuffix("Request"))


def _questions_of(request: Any, known: _List) -> str:
    """The name of the field that has the questions: an API may have an older one."""
    return next((field for field in known.questions if getattr(request, field)), known.questions[0])


def _list_parts(request: Any, known: _List) -> list[Any]:
    """Split into parts of `count` names. Equal names are in one part, so that its handler sees them together."""
    field = _questions_of(request, known)
    questions = getattr(request, field)
    if known.name_of is None:
        cuts = [questions[at : at + known.size] for at in range(0, len(questions), known.size)]
    else:
        alike: dict[Any, list[Any]] = {}
        for question in questions:
            alike.setdefault(known.name_of(question), []).append(question)
        each = list(alike.values())
        cuts = [list(chain.from_iterable(each[at : at + known.size])) for at in range(0, len(each), known.size)]
    return [_with(request, **{field: cut}) for cut in cuts] or [request]


def _metadata_parts(request: MetadataRequest, api_version: int) -> list[Any]:
    """Each topic once. Where ids are not taken yet, one of them has the whole request refused."""
    if request.topics is None:
        return [request]
    if api_version < _METADATA_BY_ID_FROM and any(
        asked.name is None or asked.topic_id != _NO_ID for asked in request.topics
    ):
        return [request]
    each = list({(asked.topic_id, asked.name): asked for asked in request.topics}.values())
    cuts = range(0, len(each), PART_QUESTIONS)
    return [_with(request, topics=each[at : at + PART_QUESTIONS]) for at in cuts] or [request]


def _cut_asked(topics: Any) -> Iterator[Any]:
    """As `_cut`, for the topics of an OffsetFetch; null asks for all of them, and is one part."""
    if topics is None:
        yield None
    else:
        yield from _cut(topics, "partition_indexes", PART_QUESTIONS)


def _cut(topics: Sequence[Any], inner: str, size: int) -> Iterator[list[Any]]:
    """The topics in lists of at most `size` partitions; a topic without any counts as one. One list at least."""
    part: list[Any] = []
    room = size
    for topic in topics:
        partitions = getattr(topic, inner)
        at = 0
        while True:
            taken = partitions[at : at + room]
            part.append(topic if len(taken) == len(partitions) else _with(topic, **{inner: taken}))
            room -= max(1, len(taken))
            at += len(taken)
            if room <= 0:
                yield part
                part, room = [], size
            if at >= len(partitions):
                break
    if part or not topics:
        yield part


def _with(message: Any, **fields: Any) -> Any:
    """A copy that differs in these fields."""
    changed = copy(message)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _join_groups(whole: list[Any], further: list[Any]) -> None:
    for group in further:
        if whole[-1].group_id == group.group_id:
            _join_topics(whole[-1].topics, group.topics)
        else:
            whole.append(group)


def _join_topics(whole: list[Any], further: list[Any], inner: str = "partitions") -> None:
    if whole and further and _is_cut(whole[-1], further[0]):
        getattr(whole[-1], inner).extend(getattr(further[0], inner))
        further = further[1:]
    whole += further


def _is_cut(last: Any, first: Any) -> bool:
    """Return True if these are two ends of one topic. Metadata answers each topic once, with all its partitions."""
    if hasattr(last, "is_internal"):
        return False
    return last.name == first.name and getattr(last, "topic_id", _NO_ID) == getattr(first, "topic_id", _NO_ID)
