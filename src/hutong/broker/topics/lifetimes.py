"""The partition group of a topic's partitions: topics with similar retention share a journal.

Strategy: the region idea again (Yak, OSDI '16). Segments die whole when everything in them is dead, so data that dies
together should be together. The set of groups is small and fixed: each has its own journal, fsync and failure.

Knows nothing of journals or topics; it only names.
"""

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
