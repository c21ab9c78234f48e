"""Partitions of a topic, their first and last offsets, and offsets by time: one request to each leader.

Decides nothing. Every function blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from hutong.console.limits import READ_PARTITIONS_MAX
from hutong.rest.limits import CALL_S_MAX
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from collections.abc import Collection

    from hutong.rest.accounts import Account


def partitions_of(account: Account, topic: str, wanted: Collection[int] | None = None) -> list[int]:
    """The partitions to read: those that are wanted, or all. Raises WebRefusal, KafkaException."""
    (asked,) = account.admin.describe_topics(TopicCollection([topic])).values()
    found = sorted(each.id for each in asked.result(CALL_S_MAX).partitions)
    if wanted is not None:
        missing = sorted(set(wanted) - set(found))
        if missing:
            raise WebRefusal(404, f"The topic has no partition {missing[0]}.", 40403)
        found = sorted(wanted)
    if len(found) > READ_PARTITIONS_MAX:
        raise WebRefusal(422, f"Choose at most {READ_PARTITIONS_MAX} of the topic's {len(found)} partitions.", 42202)
    return found


def ends_of(account: Account, topic: str, partitions: Collection[int]) -> dict[int, int]:
    """The offset after the last record of each."""
    return _offsets(account, topic, partitions, OffsetSpec.latest())


def begins_of(account: Account, topic: str, partitions: Collection[int]) -> dict[int, int]:
    """The first offset of each."""
    return _offsets(account, topic, partitions, OffsetSpec.earliest())


def offsets_at(account: Account, topic: str, partitions: Collection[int], time_ms: int) -> dict[int, int]:
    """The first offset whose record is not before the time; -1 where there is none."""
    return _offsets(account, topic, partitions, OffsetSpec.for_timestamp(time_ms))


def _offsets(account: Account, topic: str, partitions: Collection[int], spec: OffsetSpec) -> dict[int, int]:
    if not partitions:
        return {}
    asked = account.admin.list_offsets({TopicPartition(topic, partition): spec for partition in partitions})
    return {place.partition: future.result(CALL_S_MAX).offset for place, future in asked.items()}
