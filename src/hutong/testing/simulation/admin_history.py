"""The history of administrators: what they changed, and what they found of it.

Strategy: as in `history`.
"""

from dataclasses import dataclass

from hutong.testing.simulation.history_text import Place, outcome_text, place_text


@dataclass(frozen=True, slots=True)
class TopicChanged:
    """An admin client created, deleted, altered or grew a topic; `partitions` is the number asked for.

    `error` is the node's answer, -1 where it is not known what the node did.
    """

    at_us: int
    begun_us: int
    client: str
    topic: str
    kind: str
    partitions: int
    error: int

    def __str__(self) -> str:
        outcome = outcome_text(self.error)
        return f"{self.kind} {self.topic} ({self.partitions}){outcome}"


@dataclass(frozen=True, slots=True)
class TopicSeen:
    """The node named the partitions of a topic; none where there is no such topic."""

    at_us: int
    begun_us: int
    client: str
    topic: str
    partitions: int

    def __str__(self) -> str:
        return f"finds {self.topic} with {self.partitions} partitions"


@dataclass(frozen=True, slots=True)
class LogStartSeen:
    """The node named the first offset of a partition. `is_promise`: in the answer to DeleteRecords."""

    at_us: int
    begun_us: int
    client: str
    place: Place
    offset: int
    is_promise: bool

    def __str__(self) -> str:
        place = place_text(self.place)
        return (
            f"moves the start of {place} to {self.offset}"
            if self.is_promise
            else f"finds {place} from {self.offset} on"
        )


@dataclass(frozen=True, slots=True)
class KeptChanged:
    """An administrator changed an offset or a setting of a group without members.

    `error` is the node's answer, -1 where it is not known what the node did.
    """

    at_us: int
    client: str
    group: str
    kind: str
    value: int
    error: int

    def __str__(self) -> str:
        return f"{self.kind} {self.value} of {self.group}{outcome_text(self.error)}"


@dataclass(frozen=True, slots=True)
class KeptSeen:
    """The node named the offset and the setting of a group without members; -1 for the one that it does not have."""

    at_us: int
    client: str
    group: str
    offset: int
    setting: int

    def __str__(self) -> str:
        return f"finds {self.group} with the offset {self.offset} and the setting {self.setting}"
