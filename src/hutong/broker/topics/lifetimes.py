"""The partition group of a topic's partitions: topics with similar retention share a journal.

Strategy: the region idea again (Yak, OSDI '16). Segments die whole when everything in them is dead, so data that dies
together should be together. The set of groups is small and fixed: each has its own journal, fsync and failure.

Among several nodes each lifetime has as many groups as there are *slots*, so that several nodes can lead. The first has
the lifetime's own name, the others a number behind it. A topic's partitions are dealt over the slots.

Knows nothing of journals or topics; it only names.
"""

from collections.abc import Sequence
from typing import Final

from hutong.broker.topics.topic_config import TopicConfig

METADATA_GROUP: Final = "metadata"
OFFSETS_GROUP: Final = "offsets"
SHARE_GROUP: Final = "share"
TRANSACTIONS_GROUP: Final = "transactions"
COMPACTED_GROUP: Final = "compacted"
DAY_MS: Final = 86_400_000

_BY_RETENTION: Final = (("hours", DAY_MS), ("days", 10 * DAY_MS))
LONG_GROUP: Final = "long"

STATE_GROUPS: Final = (METADATA_GROUP, OFFSETS_GROUP, SHARE_GROUP, TRANSACTIONS_GROUP)
DATA_GROUPS: Final = (*(name for name, _ in _BY_RETENTION), LONG_GROUP, COMPACTED_GROUP)


def partition_group_for(config: TopicConfig) -> str:
    """The name of the group for a new topic. A later change of retention does not move the topic."""
    if config.compacted:
        return COMPACTED_GROUP
    if config.deletes and config.retention_ms >= 0:
        for name, longest_ms in _BY_RETENTION:
            if config.retention_ms <= longest_ms:
                return name
    return LONG_GROUP


def group_of_slot(lifetime: str, slot: int) -> str:
    """The name of one of a lifetime's groups."""
    return f"{lifetime}-{slot}" if slot else lifetime


def data_groups(slots: int) -> tuple[str, ...]:
    """The groups of all topics' records."""
    return tuple(group_of_slot(lifetime, slot) for lifetime in DATA_GROUPS for slot in range(slots))


def dealt_slots(topic_id: bytes, first: int, end: int, slots: int) -> list[int]:
    """The slots of a topic's partitions from index `first` to before `end`.

    They begin at a slot that the topic's id names, so that topics with one partition spread as well.
    """
    begin = int.from_bytes(topic_id, "big")
    return [(begin + index) % slots for index in range(first, end)]


def slot_at(slots: Sequence[int], index: int) -> int:
    """The slot of a partition; where none are listed, all are in the first."""
    return slots[index] if slots else 0
