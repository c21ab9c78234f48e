"""A partition as the handlers see it: a log in some journal, with the settings of its topic.

Knows nothing of requests. The log is the journal's; closing and deleting it is the catalogue's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hutong.broker.topic_config import TopicConfig
    from hutong.journal.log import PartitionLog

LEADER_EPOCH: Final = 0  # one node is every partition's leader from its creation on; the cluster room will raise it


class Partition:
    """One partition of one topic."""

    __slots__ = ("config", "index", "is_internal", "log", "topic_name")

    def __init__(self, topic_name: str, index: int, log: PartitionLog, config: TopicConfig, is_internal: bool) -> None:
        self.topic_name = topic_name
        self.index = index
        self.log = log
        self.config = config
        self.is_internal = is_internal


class Topic:
    """A topic: its identity, what its user set, and its partitions in index order.

    `log_ids` has one id for each partition, unique in this node and never used again.
    """

    __slots__ = ("config", "group", "is_internal", "log_ids", "name", "overrides", "partitions", "topic_id")

    def __init__(
        self,
        name: str,
        topic_id: bytes,
        group: str,
        log_ids: list[int],
        overrides: dict[str, str],
        config: TopicConfig,
        is_internal: bool,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.group = group
        self.log_ids = log_ids
        self.overrides = overrides
        self.config = config
        self.is_internal = is_internal
        self.partitions: list[Partition] = []

    def partition(self, index: int) -> Partition | None:
        """The partition with that index, or None."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None
