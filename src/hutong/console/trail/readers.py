"""The groups that read a topic, and how far: which records each of them has passed.

Decides nothing. Blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

from hutong.console.limits import TRAIL_GROUPS_MAX
from hutong.rest.limits import CALL_S_MAX

if TYPE_CHECKING:
    from hutong.rest.accounts import Account

Place = tuple[str, int]


class GroupPositions(NamedTuple):
    """The next offset of a group in each partition of all topics that it reads."""

    group: str
    positions: dict[Place, int]


def group_positions(account: Account) -> tuple[list[GroupPositions], bool]:
    """The positions of groups, and True where some groups were left out. Raises KafkaException."""
    listed: Any = account.admin.list_consumer_groups(request_timeout=CALL_S_MAX).result(CALL_S_MAX)
    names = sorted(each.group_id for each in listed.valid)
    # All are asked before one is waited for: the library takes one group a call.
    asked = [
        (name, account.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)]))
        for name in names[:TRAIL_GROUPS_MAX]
    ]
    found = []
    for name, futures in asked:
        try:
            partitions = futures[name].result(CALL_S_MAX).topic_partitions
        except KafkaException:
            continue  # a group that has ended meanwhile, or that this user may not see
        found.append(GroupPositions(name, {(at.topic, at.partition): at.offset for at in partitions if at.offset >= 0}))
    return found, len(names) > TRAIL_GROUPS_MAX


def readers_of(groups: Iterable[GroupPositions], place: Place, offset: int) -> list[dict[str, Any]]:
    """Each group that reads the partition: has it passed the record, and how many records is it away."""
    return [
        {"group": each.group, "has_passed": position > offset, "records_before": max(0, offset - position + 1)}
        for each in groups
        if (position := each.positions.get(place)) is not None
    ]
