"""The result of a survey: rows with formatted labels, so that each label is formatted once for all its metrics.

Strategy: plain rows in the order of the page. Everything beyond the bounds is summed in rows under `(other)`: no topic
can have that name, and a group that has it is never shown singly.

Knows nothing of where the figures come from.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

OTHER: Final = "(other)"
FOLDED: Final = ("topics", "partitions", "groups", "group_partitions", "share_groups", "share_group_partitions")
PARTITION_LABELS: Final = ("topic", "partition")
OFFSET_LABELS: Final = ("consumergroup", "topic", "partition")
SHARE_LABELS: Final = ("sharegroup", "topic", "partition")


@dataclass(frozen=True, slots=True)
class SurveyLimits:
    """Bounds on the rows of each kind; the rest is summed."""

    topics_max: int = 1000
    partitions_max: int = 10_000
    groups_max: int = 1000
    group_partitions_max: int = 10_000


class TopicRow(NamedTuple):
    """One topic, and what was written to it and read of it since the start; None for a sum, which may fall."""

    labels: str
    partitions: int
    traffic: tuple[int, int, int] | None  # records in, bytes in, bytes out


class PartitionRow(NamedTuple):
    """One partition, or the sum of several: then it is not `is_single`.

    Of partitions count `partitions`, `led` by this node (and of those, by `led_under_...`, those that lack replicas in
    sync), `under_replicated`, `leaderless` and `is_preferred`; `copies` and `in_sync` count replicas.
    """

    labels: str
    newest: int
    oldest: int
    bytes: int
    is_single: bool
    partitions: int
    copies: int
    in_sync: int
    under_replicated: int
    led: int
    led_under_replicated: int
    led_under_min: int
    leaderless: int
    leader: int
    is_preferred: int


class GroupRow(NamedTuple):
    labels: str
    members: int


class OffsetRow(NamedTuple):
    """A group's offset in one partition. `age_ms` is None for a sum, and where it is unknown."""

    labels: str
    offset: int
    lag: int
    age_ms: int | None


class StepBudget:
    """The bound of one step: well under a millisecond of the event loop."""

    STEP_MAX: Final = 200

    def __init__(self) -> None:
        self._done = 0

    def is_over(self, work: int = 1) -> bool:
        """Count `work` more rows; True once the step should yield the loop."""
        self._done += work
        if self._done < self.STEP_MAX:
            return False
        self._done = 0
        return True


@dataclass(slots=True)
class Survey:
    """Filled step by step; read when it is whole."""

    failed_groups: frozenset[str] = frozenset()  # partition groups
    is_alone: bool = True
    is_controller: bool = True
    traffic: tuple[int, int, int] = (0, 0, 0)  # of all topics: records in, bytes in, bytes out
    partitions_of_group: Counter[str] = field(default_factory=Counter)
    topic_count: int = 0
    topics: list[TopicRow] = field(default_factory=list)
    partitions: list[PartitionRow] = field(default_factory=list)
    groups: list[GroupRow] = field(default_factory=list)
    offsets: list[OffsetRow] = field(default_factory=list)
    share_groups: list[GroupRow] = field(default_factory=list)
    share_offsets: list[OffsetRow] = field(default_factory=list)
    states: Counter[tuple[str, str]] = field(default_factory=Counter)  # (kind, state) of groups
    transactions: Counter[str] = field(default_factory=Counter)  # by state
    oldest_transaction_ms: int = 0  # how long the oldest open one has lasted
    folded: Counter[str] = field(default_factory=Counter)  # what is summed under `(other)`, by kind
