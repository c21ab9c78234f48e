"""A partition as the handlers see it: a log in some journal, with the settings of its topic.

Knows nothing of requests. The log is the journal's; closing and deleting it is the catalogue's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.topic_config import TopicConfig
    from hutong.journal.log import PartitionLog

NO_LEADER: Final = -1
LEADER_EPOCH: Final = 0  # one node is every partition's leader from its creation on; the cluster room will raise it


class Partition:
    """One partition of one topic."""

    __slots__ = ("config", "index", "is_internal", "log", "offline", "topic_name")

    def __init__(self, topic_name: str, index: int, log: PartitionLog, config: TopicConfig, is_internal: bool) -> None:
        self.topic_name = topic_name
        self.index = index
        self.log = log
        self.config = config
        self.is_internal = is_internal
        self.offline = log.offline  # the error of a log that could not be opened, usually None

    def check_online(self) -> None:
        """Raise Refused(KAFKA_STORAGE_ERROR) if the log could not be opened: then not even its end is known."""
        if self.offline is not None:
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"The partition group is offline: {self.offline}")


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

    @property
    def is_offline(self) -> bool:
        """True if its partition group could not be opened: then none of its partitions has a leader."""
        return any(partition.offline is not None for partition in self.partitions[:1])

    def partition(self, index: int) -> Partition | None:
        """The partition with that index, or None."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


def check_leader_epoch(asked: int) -> None:
    """Raise Refused for a client that knows another leader epoch than ours: it is behind, or ahead of us (KIP-320)."""
    if asked < 0 or asked == LEADER_EPOCH:
        return
    raise Refused(ErrorCode.FENCED_LEADER_EPOCH if asked < LEADER_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH)
