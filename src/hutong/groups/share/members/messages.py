"""Events and instructions of the members of a share group.

Knows nothing of how either is decided or carried out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hutong.foundation.machine import Tick
from hutong.groups.share.assignor import TopicPartition
from hutong.wire.kafka.error_codes import ErrorCode

MEMBER_BYTES: Final = 1_000
PARTITION_BYTES: Final = 250  # assigned, and in the last reply
_NAME_BYTES: Final = 100


def declared_bytes(topics: Iterable[str], words: Iterable[str | None]) -> int:
    """Approximate memory of a member's topic names and other strings."""
    return MEMBER_BYTES + sum(_NAME_BYTES + len(name) for name in topics) + sum(len(word) for word in words if word)


@dataclass(frozen=True, slots=True)
class TopicShape:
    """A topic as its members' group sees it."""

    topic_id: bytes
    count: int  # of its partitions


@dataclass(slots=True, eq=False)
class ShareMember:
    """One member. `topics` are sorted; `sent_assignment` is the assignment of its last reply."""

    member_id: str
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    rack_id: str | None = None
    epoch: int = 0
    previous_epoch: int = -1  # with which it may repeat a heartbeat whose answer was lost
    assignment: set[TopicPartition] = field(default_factory=set)
    sent_assignment: set[TopicPartition] | None = None

    @property
    def footprint_bytes(self) -> int:
        """Approximate memory of its declaration."""
        return declared_bytes(self.topics, (self.member_id, self.client_id, self.client_host, self.rack_id))


@dataclass(frozen=True, slots=True)
class ShareHeartbeat:
    """Epoch 0 joins. `topics` and `rack_id` are None where they are as before."""

    member_id: str
    member_epoch: int
    now_ms: int
    client_id: str
    client_host: str
    topics: Sequence[str] | None = None
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveShareGroup:
    member_id: str


@dataclass(frozen=True, slots=True)
class SharedTopicsChanged:
    """Topics have come or gone, or have more partitions."""


@dataclass(frozen=True, slots=True)
class ShareReply:
    """`assignment` is None where it is as the member knows it."""

    error: ErrorCode
    message: str | None = None
    member_epoch: int = 0
    assignment: frozenset[TopicPartition] | None = None


@dataclass(frozen=True, slots=True)
class PersistEpoch:
    """The group has this epoch. The answer waits until that is safe: an epoch never comes twice."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Gone:
    """A member's session has expired: the records it holds become available."""

    member_id: str


Event = ShareHeartbeat | LeaveShareGroup | SharedTopicsChanged | Tick
Instruction = ShareReply | PersistEpoch | Gone
