"""Under whom records are written, and what becomes of a transaction: the values that clients and machines share.

Pure.
"""

from enum import Enum
from typing import NamedTuple


class Producer(NamedTuple):
    """An identity under which batches are numbered, so that a broker recognises what it already has (KIP-98)."""

    producer_id: int
    epoch: int


class Identity(NamedTuple):
    """A transactional id and who has it: enough to end its transaction."""

    transactional_id: str
    producer: Producer


class TransactionOutcome(Enum):
    """Outcomes of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    """By its owner, by a later owner of the id or by time; or forgotten, long after its end."""
