"""Long requests cut into parts that are handled one after the other, and their answers put together again.

Strategy: some requests are lists of questions that have nothing to do with each other. Their row in `broker/apis.py`
has a `Division`: the lists, and the size of a part. A part is a whole request of its own. A topic whose partitions go
to two parts is one topic in the answer. Requests of other kinds, and those where a question decides on all others, are
one part.

Pure. Knows nothing of handlers, nor of when a part is handled.
"""

from __future__ import annotations

from copy import copy
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.apis import BROKER_APIS
from hutong.wire.kafka.schema import message_info

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hutong.broker.apis import Division

PRODUCE_KEY: Final = 0
_METADATA_KEY: Final = 3
_OFFSET_FETCH_KEY: Final = 9
_METADATA_BY_ID_FROM: Final = 12
_GROUPS_FROM: Final = 8
_NO_ID: Final = bytes(16)


def parts_of(request: Any, api_version: int) -> list[Any]:
    """Requests that ask together what this one asks, in order."""
    api_key, division = _division_of(request)
    if division is None:
        return [request]
    if api_key == _METADATA_KEY:
        return _metadata_parts(request, division, api_version)
    # KIP-709: from version 8 a client asks for the offsets of several groups, each with topics of its own.
    if api_key == _OFFSET_FETCH_KEY and api_version >= _GROUPS_FROM:
        return [
            _with(request, groups=[group if topics is None else _with(group, topics=topics)])
            for group in request.groups
            for topics in _cut(group.topics, division)
        ]
    field = _questions_of(request, division)
    questions = getattr(request, field)
    cuts = _cut(questions, division) if division.inner else _cut_list(questions, division)
    # Copies share everything but the list, so a part has the request's other fields, such as a timeout.
    return [_with(request, **{field: cut}) for cut in cuts]


def has_many(request: Any) -> bool:
    """Return True if a decoded request has too many elements to be handled at once."""
    division = _division_of(request)[1]
    # Up to two parts are handled at once: a division would give others little time.
    return division is not None and elements_in(request) > (division.whole_max or 2 * division.size)


def elements_in(request: Any) -> int:
    """Topics and partitions of a divisible request; 0 where it has no list of them."""
    api_key, division = _division_of(request)
    if division is None:
        return 0
    questions = getattr(request, _questions_of(request, division)) or ()
    count = len(questions)
    if api_key == _OFFSET_FETCH_KEY:
        # One of both lists is empty: the version of the request decides which.
        questions = [*questions, *(topic for group in request.groups for topic in group.topics or ())]
        count = len(request.groups) + len(questions)
    if division.inner:
        # Topics count as well as partitions: an empty one costs a look-up and a place in the answer.
        inner = division.inner
        for question in questions:
            count += len(getattr(question, inner))
    return count


def is_divisible(api_key: int) -> bool:
    """Return True if requests of this kind may have more than one part."""
    return BROKER_APIS[api_key].division is not None


def joined(answers: Sequence[Any]) -> Any:
    """The answer to the whole of a request, of those to its parts; they are used up."""
    whole = answers[0]
    api_key, division = _division_of(whole)
    if division is None:
        return whole
    for answer in answers[1:]:
        # KIP-219: a client waits as long as an answer asks, so the whole asks for the longest wait of its parts.
        if getattr(answer, "throttle_time_ms", 0):
            whole.throttle_time_ms = max(whole.throttle_time_ms, answer.throttle_time_ms)
        if api_key == _OFFSET_FETCH_KEY and whole.groups:
            _join_groups(whole.groups, answer.groups, division)
        else:
            _join(getattr(whole, division.answers), getattr(answer, division.answers), division)
    return whole


def _division_of(message: Any) -> tuple[int, Division | None]:
    """The API of a request or an answer, and how its requests are divided."""
    api_key = message_info(type(message)).api_key
    return api_key, BROKER_APIS[api_key].division


def _questions_of(request: Any, division: Division) -> str:
    """The name of the field that has the questions: an API may have an older one."""
    for field in division.questions:
        if getattr(request, field):
            return field
    return division.questions[0]


def _cut_list(questions: list[Any], division: Division) -> list[list[Any]]:
    """Split into lists of `size` names. Equal names are in one part, so that its handler sees them together."""
    size = division.size
    if division.name_of is None:
        return [questions[at : at + size] for at in range(0, len(questions), size)] or [questions]
    # A handler refuses a name that comes twice, or answers it once. In two parts it would do neither.
    alike: dict[Any, list[Any]] = {}
    for question in questions:
        alike.setdefault(division.name_of(question), []).append(question)
    each = list(alike.values())
    return [list(chain.from_iterable(each[at : at + size])) for at in range(0, len(each), size)] or [questions]


def _metadata_parts(request: Any, division: Division, api_version: int) -> list[Any]:
    """Each topic once. Where ids are not taken yet, one of them has the whole request refused."""
    # Null asks for all topics: the answer is long, not the request.
    if request.topics is None:
        return [request]
    # KIP-516: ids count from version 12 only. A part without ids must not be answered if another one has them.
    if api_version < _METADATA_BY_ID_FROM and any(
        asked.name is None or asked.topic_id != _NO_ID for asked in request.topics
    ):
        return [request]
    # Metadata answers a topic once, however often it is named; two parts would answer it twice.
    each = list({(asked.topic_id, asked.name): asked for asked in request.topics}.values())
    return [_with(request, topics=cut) for cut in _cut_list(each, division)]


def _cut(topics: Sequence[Any] | None, division: Division) -> Iterator[Any]:
    """The topics in lists of at most `size` partitions; a topic without any counts as one. One list at least."""
    # An OffsetFetch with null instead of topics asks for all that the group has.
    if topics is None:
        yield None
        return
    part: list[Any] = []
    room = division.size
    for topic in topics:
        partitions = getattr(topic, division.inner)
        at = 0
        # At least once, so that a topic without partitions is in a part as well.
        while True:
            taken = partitions[at : at + room]
            # A whole topic goes uncopied, since most topics have fewer partitions than a part.
            part.append(topic if len(taken) == len(partitions) else _with(topic, **{division.inner: taken}))
            room -= max(1, len(taken))
            at += len(taken)
            if room <= 0:
                yield part
                part, room = [], division.size
            if at >= len(partitions):
                break
    # No topics at all is a request, too: its one part is answered like the whole.
    if part or not topics:
        yield part


def _with(message: Any, **fields: Any) -> Any:
    """A copy that differs in these fields."""
    changed = copy(message)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _join_groups(whole: list[Any], further: list[Any], division: Division) -> None:
    for group in further:
        # Only the last group can go on in the next part: parts keep the order of the request.
        if whole[-1].group_id == group.group_id:
            _join(whole[-1].topics, group.topics, division)
        else:
            whole.append(group)


def _join(whole: list[Any], further: list[Any], division: Division) -> None:
    # The first topic of a part may be the rest of the last one's, and then is one topic with it.
    if division.inner and whole and further and _is_cut(whole[-1], further[0]):
        getattr(whole[-1], division.inner_answers).extend(getattr(further[0], division.inner_answers))
        further = further[1:]
    whole += further


def _is_cut(last: Any, first: Any) -> bool:
    """Return True if these are two ends of one topic. From version 13 a Produce names topics by their ids alone."""
    return last.name == first.name and getattr(last, "topic_id", _NO_ID) == getattr(first, "topic_id", _NO_ID)
