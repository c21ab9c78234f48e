"""Facts about groups from the admin client. Every function blocks, and raises KafkaException.

confluent-kafka lists groups of the types classic and consumer; for share and streams groups (`others`) it has no
request.

Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from hutong.console.groups.resets.plan import LogSpan, Place
from hutong.rest.limits import CALL_S_MAX

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

PARTITIONS_OF_GROUP_MAX: Final = 10_000
_MEMBERS_THERE: Final = frozenset(
    (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP, KafkaError.ILLEGAL_GENERATION)
)


class GroupHasMembers(KafkaException):
    """Offsets belong to the members as long as there are some."""


def described_groups(admin: AdminClient, groups: Sequence[str]) -> dict[str, Any]:
    """Each group as the library describes it, or the KafkaException for it."""
    asked = admin.describe_consumer_groups([*groups], request_timeout=CALL_S_MAX)
    return {group: future.exception(CALL_S_MAX) or future.result() for group, future in asked.items()}


def committed_of(admin: AdminClient, group: str) -> dict[Place, int]:
    """The offsets of one group."""
    (future,) = _ask_committed(admin, group).values()
    return _offsets(future.result(CALL_S_MAX))


def committed_offsets(admin: AdminClient, groups: Iterable[str]) -> dict[str, dict[Place, int]]:
    """The offsets of groups, asked for at once; those that may not be seen are left out."""
    asked = {group: _ask_committed(admin, group) for group in groups}
    found: dict[str, dict[Place, int]] = {}
    for group, futures in asked.items():
        (future,) = futures.values()
        if future.exception(CALL_S_MAX) is None:
            found[group] = _offsets(future.result())
    return found


def offsets_at(admin: AdminClient, specs: Mapping[Place, Any]) -> dict[Place, int]:
    """Offsets by their specs; -1 where there is none; those of partitions that are gone are left out."""
    if not specs:
        return {}
    asked = admin.list_offsets(
        {TopicPartition(*place): spec for place, spec in specs.items()}, request_timeout=CALL_S_MAX
    )
    return {
        (place.topic, place.partition): future.result().offset
        for place, future in asked.items()
        if future.exception(CALL_S_MAX) is None
    }


def ends_of(admin: AdminClient, places: Iterable[Place]) -> dict[Place, int]:
    return offsets_at(admin, {place: OffsetSpec.latest() for place in places})


def log_spans(
    admin: AdminClient, group: str, places: Iterable[Place] | None = None, also: Iterable[Place] = ()
) -> list[LogSpan]:
    """The partitions in which the group has an offset, or these ones, and some more, with what the log has of them."""
    committed = committed_of(admin, group)
    wanted = [*dict.fromkeys([*(committed if places is None else places), *also])][:PARTITIONS_OF_GROUP_MAX]
    begins = offsets_at(admin, {place: OffsetSpec.earliest() for place in wanted})
    ends = ends_of(admin, wanted)
    return [
        LogSpan(place, begins[place], ends[place], committed.get(place))
        for place in sorted(wanted)
        if place in begins and place in ends
    ]


def places_of(admin: AdminClient, topics: Sequence[str]) -> list[Place]:
    """All partitions of topics. Metadata by name could make a topic; a description does not."""
    asked = admin.describe_topics(TopicCollection([*topics]), request_timeout=CALL_S_MAX)
    return [(topic, each.id) for topic, future in asked.items() for each in future.result(CALL_S_MAX).partitions]


def existing_places(admin: AdminClient, topics: Sequence[str]) -> list[Place]:
    """The partitions of the topics that are there, in order. Raises for one that the user may not see."""
    if not topics:
        return []
    found: list[Place] = []
    for topic, future in admin.describe_topics(TopicCollection([*topics]), request_timeout=CALL_S_MAX).items():
        error = future.exception(CALL_S_MAX)
        # Deleted while the group still names it.
        if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            continue
        found += [(topic, each.id) for each in future.result().partitions]
    return sorted(found)[:PARTITIONS_OF_GROUP_MAX]


def alter_offsets(admin: AdminClient, group: str, offsets: Mapping[Place, int]) -> None:
    """Commit offsets for a group without members. Raises GroupHasMembers."""
    wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
    asked = admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=CALL_S_MAX
    )
    (future,) = asked.values()
    _checked(partial(future.result, CALL_S_MAX))


def delete_group(admin: AdminClient, group: str) -> None:
    """Delete a group without members. Raises GroupHasMembers."""
    (future,) = admin.delete_consumer_groups([group], request_timeout=CALL_S_MAX).values()
    _checked(partial(future.result, CALL_S_MAX))


def _ask_committed(admin: AdminClient, group: str) -> Any:
    return admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=CALL_S_MAX)


def _offsets(found: Any) -> dict[Place, int]:
    return {(each.topic, each.partition): each.offset for each in found.topic_partitions if each.offset >= 0}


def _checked(ask: Any) -> None:
    try:
        answer = ask()
    except KafkaException as error:
        raise _named(error.args[0]) from None
    for place in getattr(answer, "topic_partitions", None) or ():
        if place.error is not None:
            raise _named(place.error)


def _named(error: KafkaError) -> KafkaException:
    return GroupHasMembers(error) if error.code() in _MEMBERS_THERE else KafkaException(error)
