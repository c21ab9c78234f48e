"""Events and instructions of one share group in one partition.

Knows nothing of how either is decided or carried out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from hutong.foundation.machine import Tick
from hutong.wire.kafka.error_codes import ErrorCode


class Acknowledgement(IntEnum):
    """A member's acknowledgement of a record. RENEW prolongs its lock (KIP-1222)."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


@dataclass(frozen=True, slots=True)
class DeliveryLimits:
    """The limits of the group's settings, for every record from now on."""

    delivery_limit: int = 5
    lock_ms: int = 30_000
    locks_max: int = 2_000  # unfinished offsets at a time
    may_renew: bool = True
    has_dead_letters: bool = False


@dataclass(frozen=True, slots=True)
class BatchSpan:
    """One record batch of the log. What is not for readers (markers, what was aborted) is passed over."""

    first: int
    last: int
    is_passed_over: bool = False


@dataclass(frozen=True, slots=True)
class AcknowledgedBatch:
    """Offsets with one answer for all of them, or one for each."""

    first: int
    last: int
    types: Sequence[int]


@dataclass(frozen=True, slots=True)
class Acquire:
    """A member wants records. `spans` are what the log has from `offset` on; between them there is nothing.

    `is_strict`: not one more than `records_max` (KIP-1206); otherwise whole batches are acquired. `lock_ms` is how long
    they are locked; None: as the group's rules say. `is_ordered`: nothing while a record before is not settled.
    """

    member_id: str
    now_ms: int
    offset: int
    spans: Sequence[BatchSpan]
    records_max: int
    batch_size: int
    is_strict: bool = False
    lock_ms: int | None = None
    is_ordered: bool = False


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """A member's word about its records. `lock_ms` is how long RENEW holds them; None: as the group's rules say."""

    member_id: str
    now_ms: int
    batches: Sequence[AcknowledgedBatch]
    types_max: int = Acknowledgement.RENEW
    lock_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ReleaseMember:
    """A member is gone: the records it holds become available."""

    member_id: str


@dataclass(frozen=True, slots=True)
class LogStartsAt:
    """The log keeps nothing before `offset` any more."""

    offset: int


@dataclass(frozen=True, slots=True)
class Buried:
    """The dead letters of these offsets are safe, or can never be written."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Configured:
    rules: DeliveryLimits


@dataclass(frozen=True, slots=True)
class Acquired:
    """Offsets handed to a member together, and which delivery of theirs it is."""

    first: int
    last: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class Hand:
    """The answer to Acquire; to be given once all that was persisted is safe."""

    acquired: tuple[Acquired, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer to Acknowledge; to be given once all that was persisted is safe."""

    error: ErrorCode
    message: str | None = None


@dataclass(frozen=True, slots=True)
class PersistProgress:
    """The state has changed, as `snapshot` has it."""


@dataclass(frozen=True, slots=True)
class RecordsAvailable:
    """Records have become available."""


@dataclass(frozen=True, slots=True)
class Bury:
    """Write dead letters of these offsets, then say Buried."""

    first: int
    last: int
    deliveries: int
    is_rejected: bool


Event = Acquire | Acknowledge | ReleaseMember | Tick | LogStartsAt | Buried | Configured
Instruction = Hand | Settled | PersistProgress | RecordsAvailable | Bury
