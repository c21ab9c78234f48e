"""First and end offsets of many partitions by two questions: the library sends one request to each leader.

Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from hutong.rest.limits import CALL_S_MAX

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

Place = tuple[str, int]


class KeptOffsets(NamedTuple):
    """The offsets that a partition keeps: from `first` to before `end`."""

    first: int
    end: int

    @property
    def records(self) -> int:
        """An upper bound: compaction and aborted transactions leave gaps."""
        return max(0, self.end - self.first)


def spans(admin: AdminClient, places: Iterable[Place]) -> dict[Place, KeptOffsets]:
    """The spans of these partitions; those are missing whose leader gave no answer. Blocks."""
    asked = [TopicPartition(topic, partition) for topic, partition in places]
    if not asked:
        return {}
    # Both are sent before one is waited for.
    firsts = admin.list_offsets({each: OffsetSpec.earliest() for each in asked}, request_timeout=CALL_S_MAX)
    ends = admin.list_offsets({each: OffsetSpec.latest() for each in asked}, request_timeout=CALL_S_MAX)
    first_of = {at: offset for at, future in firsts.items() if (offset := _offset(future)) is not None}
    found = {}
    for at, future in ends.items():
        end, first = _offset(future), first_of.get(at)
        if end is not None and first is not None:
            found[at.topic, at.partition] = KeptOffsets(first, end)
    return found


def _offset(future: Any) -> int | None:
    try:
        return int(future.result(CALL_S_MAX).offset)
    except KafkaException:
        return None  # one partition without a leader must not hide all the others
