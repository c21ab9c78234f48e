"""A partition as the handlers see it: a log in some journal, with the settings of its topic.

Its standing is that of its partition group: who leads it, and whether this node does.

Knows nothing of requests. The log is the journal's; closing and deleting it is the catalogue's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired, TypedDict

from hutong.broker.topics.group_standing import NO_LEADER
from hutong.broker.topics.internal_topics import METADATA_TOPIC
from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hutong.broker.topics.group_standing import GroupStanding
    from hutong.broker.topics.topic_config import TopicConfig
    from hutong.journal.log import PartitionLog


class Partition:
    """One partition of one topic. `group` is the name of its partition group, `standing` is shared by all of that."""

    __slots__ = ("config", "group", "index", "is_internal", "log", "offline", "standing", "topic_name")

    def __init__(
        self,
        topic_name: str,
        index: int,
        log: PartitionLog,
        config: TopicConfig,
        group: str,
        standing: GroupStanding,
        *,
        is_internal: bool,
    ) -> None:
        self.topic_name = topic_name
        self.index = index
        self.log = log
        self.config = config
        self.group = group
        self.standing = standing
        self.is_internal = is_internal
        self.offline = log.offline  # the error of a log that could not be opened, usually None

    @property
    def leader(self) -> int:
        """The node that leads the partition; NO_LEADER also where this one should, and could not open the log."""
        standing = self.standing
        return NO_LEADER if self.offline is not None and standing.is_led_here else standing.leader

    @property
    def offline_replicas(self) -> list[int]:
        """The replicas whose nodes are gone, or this one where it could not open the log."""
        standing = self.standing
        return [standing.leader] if self.offline is not None and standing.is_led_here else [*standing.offline_replicas]

    def rebind(self, log: PartitionLog) -> None:
        """Use another log from now on: the group's journal was opened anew. Who watches the old one is called."""
        before, self.log = self.log, log
        self.offline = log.offline
        self.configure(self.config)
        if before is not log:
            before.notify_watchers()

    def place(self, group: str, standing: GroupStanding, log: PartitionLog) -> None:
        """Belong to another partition group from now on, which has this log."""
        self.group, self.standing = group, standing
        self.rebind(log)

    def configure(self, config: TopicConfig) -> None:
        """Go by these settings of the topic from now on."""
        self.config = config
        self.log.configure(
            receive_qos=config.receive_qos,
            log_append_time=config.log_append_time,
            segment_bytes=config.segment_bytes,
        )

    def check_served(self, leader_epoch: int = -1) -> None:
        """Raise Refused unless this node leads the partition, in the epoch that the client knows if it names one."""
        standing = self.standing
        if not standing.is_led_here:
            standing.check_epoch(leader_epoch)
            standing.check_led_here()
        # A failed journal serves nothing, not even from memory: its records may be gone after the next start.
        if self.offline is not None:
            self.check_online()
        # KIP-320: a client with an older or newer epoch has metadata of another leader.
        if leader_epoch >= 0:
            standing.check_epoch(leader_epoch)

    def check_readable(self, leader_epoch: int) -> None:
        """The same for a read that an in-sync follower serves, too (KIP-392)."""
        standing = self.standing
        if standing.is_led_here or not standing.is_followed_here:
            self.check_served(leader_epoch)
        else:
            self.check_online()
            standing.check_epoch(leader_epoch)

    def check_online(self) -> None:
        """Raise Refused(KAFKA_STORAGE_ERROR) if the log could not be opened: then not even its end is known."""
        if self.offline is not None:
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"The partition group is offline: {self.offline}")


class Topic:
    """A topic: its identity, what its user set, and its partitions in index order.

    `log_ids` has one id for each partition, unique in the cluster and never used again. `group` names the lifetime, so
    the partition group of the first slot; `slots` has the slot of each partition where it was created, or is empty if
    all are in the first. `is_scattered` is True where partitions were moved to other groups.
    """

    __slots__ = (
        "config",
        "group",
        "is_internal",
        "is_scattered",
        "log_ids",
        "name",
        "overrides",
        "partitions",
        "slots",
        "topic_id",
    )

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
        self.slots: Sequence[int] = ()
        self.is_scattered = False
        self.partitions: list[Partition] = []

    def groups(self) -> Iterator[tuple[str, list[int]]]:
        """The names of its partition groups, each with the ids of the logs that are there."""
        if not self.slots and not self.is_scattered:
            yield self.group, self.log_ids
            return
        log_ids: dict[str, list[int]] = {}
        for log_id, partition in zip(self.log_ids, self.partitions, strict=True):
            log_ids.setdefault(partition.group, []).append(log_id)
        yield from sorted(log_ids.items())

    def partition(self, index: int) -> Partition | None:
        """The partition with that index, or None."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


def is_listed(topic: Topic) -> bool:
    """True if a client that asks for all topics is shown this one.

    Kafka makes its internal topics when they are first used and lists no metadata log, so an internal one is left out
    until it has a record.
    """
    if not topic.is_internal:
        return True
    return topic.name != METADATA_TOPIC and any(partition.log.end_offset for partition in topic.partitions)


class TopicRecord(TypedDict):
    """One topic as the log has it. `id` is hexadecimal, `partitions` are log ids in index order.

    `slots` has the slot of each partition; it is left out where all are in the first, as on every node alone.
    """

    id: str
    group: str
    partitions: list[int]
    config: dict[str, str]
    slots: NotRequired[list[int]]


def record_of(
    topic_id: bytes, group: str, log_ids: list[int], overrides: dict[str, str], slots: Sequence[int]
) -> TopicRecord:
    """The record of a topic."""
    record: TopicRecord = {"id": topic_id.hex(), "group": group, "partitions": log_ids, "config": overrides}
    if any(slots):
        record["slots"] = list(slots)
    return record


class ChangesUnderWay:
    """The changes of one topic that are not durable yet: how many, and what the last of them makes of it."""

    __slots__ = ("count", "newest")

    def __init__(self) -> None:
        self.count = 0
        self.newest: TopicRecord | None = None  # None once the topic is to be deleted
