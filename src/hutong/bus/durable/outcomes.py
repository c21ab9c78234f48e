"""Outcomes of publishing and consuming at durable addresses, as values and errors."""

from dataclasses import dataclass, field

from hutong.foundation.errors import HutongError


@dataclass(frozen=True, slots=True)
class Stored:
    """The place of a published message in the log. It is as durable now as its topic promises (acks=all).

    `timestamp_ms` is the record's time since 1970, -1 where it has none; the place alone counts where two are compared.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int = field(default=-1, compare=False)


class PublishFailed(HutongError):
    """A message is not known to be stored.

    `code` names the cause as Kafka does. With `is_outcome_unknown` it may be stored all the same (the acknowledgement
    did not come in time): publishing it again may store it twice. `is_hopeless`: trying again does not help.
    """

    def __init__(self, message: str, *, code: str, is_outcome_unknown: bool = False, is_hopeless: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.is_outcome_unknown = is_outcome_unknown
        self.is_hopeless = is_hopeless


class ConsumerStopped(HutongError):
    """A consumer ended by itself, because going on would lose a message. What it had not handled stays in the log."""
