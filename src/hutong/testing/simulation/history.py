"""The history of a simulation: what clients asked for and what they saw, in virtual time.

Strategy: plain events in the order in which they happened, with values that are unique in a simulation. Checkers read
them when it is over.
"""

from dataclasses import dataclass, field

from hutong.testing.simulation.admin_history import KeptChanged, KeptSeen, LogStartSeen, TopicChanged, TopicSeen
from hutong.testing.simulation.call_history import CallHappening
from hutong.testing.simulation.history_text import Place, error_name, outcome_text, place_text, ranges_text
from hutong.testing.simulation.world import World


@dataclass(frozen=True, slots=True)
class ValueSent:
    """A producer begins to send a value. `transaction` names the transaction that it belongs to."""

    at_us: int
    client: str
    place: Place
    value: bytes
    transaction: str | None = None
    source: tuple[Place, int] | None = None  # the record that it was made from

    def __str__(self) -> str:
        made = f", made from {place_text(self.source[0])} at {self.source[1]}" if self.source else ""
        within = f" in {self.transaction}" if self.transaction else ""
        return f"sends {self.value!r} to {place_text(self.place)}{within}{made}"


@dataclass(frozen=True, slots=True)
class ValueAcknowledged:
    """The node answered: the value is stored at this offset; -1 where it was stored before and the node did not say."""

    at_us: int
    client: str
    place: Place
    value: bytes
    offset: int

    def __str__(self) -> str:
        return f"hears that {self.value!r} is stored in {place_text(self.place)} at {self.offset}"


@dataclass(frozen=True, slots=True)
class ValueRefused:
    """The node refused the value for good. It may not be seen."""

    at_us: int
    client: str
    place: Place
    value: bytes
    error: int

    def __str__(self) -> str:
        return f"hears that {self.value!r} is refused by {place_text(self.place)} with {error_name(self.error)}"


@dataclass(frozen=True, slots=True)
class ValueRead:
    """A consumer got a value. `session` numbers the consumer's assignments: offsets ascend within one."""

    at_us: int
    client: str
    session: int
    place: Place
    offset: int
    value: bytes
    is_committed: bool  # read with isolation.level=read_committed

    def __str__(self) -> str:
        return f"reads {self.value!r} from {place_text(self.place)} at {self.offset}"


@dataclass(frozen=True, slots=True)
class EndSeen:
    """A consumer heard where the log ends: the high watermark. It had asked at `asked_us`."""

    at_us: int
    asked_us: int
    client: str
    place: Place
    end: int

    def __str__(self) -> str:
        return f"hears that {place_text(self.place)} ends at {self.end}"


@dataclass(frozen=True, slots=True)
class ProducerInitialised:
    """A transactional id has a new epoch. All producers that had it before are fenced."""

    at_us: int
    begun_us: int
    client: str
    transactional_id: str
    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"has {self.transactional_id}, producer id {self.producer_id} with epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """A transaction was ended. `is_certain` is False where no answer came: how it ended, if at all, is unknown.

    `begun_us` is when the end was asked for first.
    """

    at_us: int
    begun_us: int
    client: str
    transaction: str
    is_commit: bool
    is_certain: bool

    def __str__(self) -> str:
        heard = "hears" if self.is_certain else "hears nothing"
        return f"{heard} of the {'commit' if self.is_commit else 'abort'} of {self.transaction}"


@dataclass(frozen=True, slots=True)
class OffsetCommitBegun:
    """A member begins to commit offsets of its group. `number` counts the commits of this client."""

    at_us: int
    client: str
    group: str
    number: int
    place: Place
    offset: int

    def __str__(self) -> str:
        return f"commits offset {self.offset} of {place_text(self.place)} for {self.group} ({self.number})"


@dataclass(frozen=True, slots=True)
class OffsetCommitted:
    """The node answered an offset commit."""

    at_us: int
    client: str
    group: str
    number: int
    place: Place
    offset: int

    def __str__(self) -> str:
        return (
            f"hears that offset {self.offset} of {place_text(self.place)} is committed for {self.group} ({self.number})"
        )


@dataclass(frozen=True, slots=True)
class OffsetCommitRefused:
    """The group refused an offset commit. It may not be seen."""

    at_us: int
    client: str
    group: str
    number: int
    place: Place
    offset: int
    error: int

    def __str__(self) -> str:
        what = f"offset {self.offset} of {place_text(self.place)}"
        return f"hears that {what} is refused for {self.group} with {error_name(self.error)} ({self.number})"


@dataclass(frozen=True, slots=True)
class OffsetSeen:
    """A member asked for the committed offset of its group; -1 for none. `begun_us` is when it asked."""

    at_us: int
    begun_us: int
    client: str
    group: str
    place: Place
    offset: int

    def __str__(self) -> str:
        return f"finds offset {self.offset} of {place_text(self.place)} committed for {self.group}"


@dataclass(frozen=True, slots=True)
class PartitionsOwned:
    """A member owns exactly these partitions from now on, in this generation or epoch.

    `begun_us` is when the request began whose answer gave them. `instance` is a static member's, or empty.
    """

    at_us: int
    begun_us: int
    client: str
    instance: str
    group: str
    generation: int
    places: tuple[Place, ...]

    def __str__(self) -> str:
        owned = ", ".join(map(place_text, self.places)) or "nothing"
        return f"owns {owned} in {self.group}, generation {self.generation}"


@dataclass(frozen=True, slots=True)
class MembershipConfirmed:
    """The node accepted a heartbeat of a member, which kept these partitions after the answer."""

    at_us: int
    begun_us: int
    client: str
    group: str
    generation: int
    places: tuple[Place, ...]

    def __str__(self) -> str:
        owned = ", ".join(map(place_text, self.places)) or "nothing"
        return f"keeps {owned} in {self.group}, generation {self.generation}"


@dataclass(frozen=True, slots=True)
class PartitionsGivenUp:
    """A member owns nothing any more: it left, was fenced, or its process ended."""

    at_us: int
    client: str
    group: str

    def __str__(self) -> str:
        return f"owns nothing in {self.group} any more"


@dataclass(frozen=True, slots=True)
class RecordsAcquired:
    """A member of a share group got records of a partition. `begun_us` is when it asked.

    `delivery_count` is theirs, `lock_us` how long the member may keep them.
    """

    at_us: int
    begun_us: int
    client: str
    group: str
    place: Place
    delivery_count: int
    lock_us: int
    records: tuple[tuple[int, bytes], ...]

    def __str__(self) -> str:
        offsets = ranges_text([offset for offset, _ in self.records])
        return f"acquires {place_text(self.place)} at {offsets} in {self.group}, delivery {self.delivery_count}"


@dataclass(frozen=True, slots=True)
class RecordsSettled:
    """A member acknowledged records that it held: it accepted, released or rejected them.

    `error` is the node's answer, -1 where it is not known what the node did.
    """

    at_us: int
    begun_us: int
    client: str
    group: str
    place: Place
    delivery_count: int
    kind: str
    offsets: tuple[int, ...]
    error: int

    def __str__(self) -> str:
        outcome = outcome_text(self.error)
        return f"{self.kind} {place_text(self.place)} at {ranges_text(self.offsets)} in {self.group}{outcome}"


@dataclass(frozen=True, slots=True)
class AcquisitionUnknown:
    """A share fetch had no usable answer: the node may have counted a delivery of records that nobody saw."""

    at_us: int
    begun_us: int
    client: str
    group: str

    def __str__(self) -> str:
        return f"does not know what it has acquired in {self.group}"


@dataclass(frozen=True, slots=True)
class ShareGroupRead:
    """The standing of a share group once all faults are over and its last member has read all that it could get."""

    group: str
    place: Place
    start_offset: int
    end_offset: int
    delivery_limit: int

    def __str__(self) -> str:
        return f"finds {self.group} at {self.start_offset} of {self.end_offset} in {place_text(self.place)}"


@dataclass(frozen=True, slots=True)
class KeySent:
    """A producer begins to set a key of a compacted topic, or to delete it. `value` is the record's unique name."""

    at_us: int
    client: str
    place: Place
    key: bytes
    value: bytes
    is_tombstone: bool
    transaction: str | None = None

    def __str__(self) -> str:
        verb, within = "deletes" if self.is_tombstone else "sets", f" in {self.transaction}" if self.transaction else ""
        return f"{verb} {self.key!r} of {place_text(self.place)} by {self.value!r}{within}"


@dataclass(frozen=True, slots=True)
class KeyedRecord:
    """A record of a compacted topic as it was read."""

    offset: int
    key: bytes
    value: bytes
    is_tombstone: bool


@dataclass(frozen=True, slots=True)
class FinalKeys:
    """All that is left of a compacted partition once all faults are over, oldest first.

    `keeps_tombstones`: for longer than the simulation lasts.
    """

    place: Place
    keeps_tombstones: bool
    records: tuple[KeyedRecord, ...]

    def __str__(self) -> str:
        return f"finds {len(self.records)} records in {place_text(self.place)}"


@dataclass(frozen=True, slots=True)
class FinalTimes:
    """The times of all records of a partition, and what the node found by time: (asked, offset, time), in ms."""

    place: Place
    records: tuple[tuple[int, int], ...]
    answers: tuple[tuple[int, int, int], ...]

    def __str__(self) -> str:
        return f"finds {len(self.answers)} offsets of {place_text(self.place)} by their times"


@dataclass(frozen=True, slots=True)
class FinalRead:
    """Everything of a partition once all faults are over, or before its topic is deleted, oldest first."""

    place: Place
    is_committed: bool
    start_offset: int
    records: tuple[tuple[int, bytes], ...]

    def __str__(self) -> str:
        level = "committed" if self.is_committed else "all"
        return f"finds {len(self.records)} records ({level}) in {place_text(self.place)} from {self.start_offset} on"


Happening = (
    ValueSent
    | ValueAcknowledged
    | ValueRefused
    | ValueRead
    | EndSeen
    | ProducerInitialised
    | TransactionEnded
    | OffsetCommitBegun
    | OffsetCommitted
    | OffsetCommitRefused
    | OffsetSeen
    | PartitionsOwned
    | MembershipConfirmed
    | PartitionsGivenUp
    | RecordsAcquired
    | RecordsSettled
    | AcquisitionUnknown
    | ShareGroupRead
    | KeySent
    | FinalKeys
    | KeptChanged
    | KeptSeen
    | FinalTimes
    | TopicChanged
    | TopicSeen
    | LogStartSeen
    | FinalRead
    | CallHappening
)


@dataclass(slots=True)
class SimulationHistory:
    """All happenings of one simulation. `stale_us_max` is the greatest age of a read in a cluster."""

    world: World
    stale_us_max: int | None = None
    happenings: list[Happening] = field(default_factory=list)

    def add(self, happening: Happening) -> None:
        """Append it, and note it in the trace."""
        self.happenings.append(happening)
        self.world.note(getattr(happening, "client", "checker"), str(happening))
