"""The partition group of a topic's partitions: topics with similar retention share a journal.

Strategy: the region idea again (Yak, OSDI '16). Segments die whole when everything in them is dead, so data that dies
together should be together. The set of groups is small and fixed: each has its own journal, fsync and failure.

Among several nodes each lifetime has as many groups as there are *slots*, so that several nodes can lead. The first has
the lifetime's own name, the others a number behind it. A topic's partitions are dealt over the slots.

What coordinators keep is dealt in the same way over *shards*, by the hash of a group's or a transaction's name.

Knows nothing of journals or topics; it only names.
"""

from collections.abc import Sequence
from functools import lru_cache
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

COORDINATOR_GROUPS: Final = (OFFSETS_GROUP, SHARE_GROUP, TRANSACTIONS_GROUP)
STATE_GROUPS: Final = (METADATA_GROUP, *COORDINATOR_GROUPS)
DATA_GROUPS: Final = (*(name for name, _ in _BY_RETENTION), LONG_GROUP, COMPACTED_GROUP)
_NAMES_KEPT_MAX: Final = 10_000  # of groups and transactions, with their hashes
_INT_END: Final = 1 << 32  # of Java's int, as a number without a sign


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


def lifetime_of(group: str) -> str:
    """The name that all slots or shards of a kind share: `days` of `days-2`."""
    name, _, slot = group.rpartition("-")
    return name if slot.isdecimal() else group


def is_state_group(group: str) -> bool:
    """Return True for a group of the node's own state, not of topics' records."""
    return lifetime_of(group) in STATE_GROUPS


def coordinator_groups(shards: int) -> tuple[str, ...]:
    """The groups of what coordinators keep."""
    return tuple(group_of_slot(kind, shard) for kind in COORDINATOR_GROUPS for shard in range(shards))


def shard_of(key: str, shards: int) -> int:
    """The shard of a group or a transaction, by its name: Kafka's `abs(key.hashCode()) % shards`."""
    return 0 if shards == 1 else _hash_of(key) % shards


@lru_cache(_NAMES_KEPT_MAX)
def _hash_of(key: str) -> int:
    """Java's String.hashCode, which counts units of UTF-16, without its sign."""
    units = key.encode("utf-16-be", "surrogatepass")
    number = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        number = (31 * number + (high << 8 | low)) % _INT_END
    # Java has no positive number for the least one: Kafka takes 0.
    return min(number, _INT_END - number) % (_INT_END // 2)


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
