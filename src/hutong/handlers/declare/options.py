"""Options of topic handlers, checked when they are declared.

Knows no client library.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

from hutong.bus.durable.addresses import checked_group, checked_topic, dead_letter_topic, shown
from hutong.bus.durable.consume.retry import Retry
from hutong.foundation.errors import HutongError, UsageError
from hutong.handlers.declare.models import Decode
from hutong.handlers.declare.signature import HandlerSignature

CONCURRENCY_MAX: Final = 10_000
BATCH_MAX: Final = 100_000
BATCH_WAIT_S_MAX: Final = 3_600.0
RETRIES_DEFAULT: Final = 3
GRACE_S_DEFAULT: Final = 10.0
OWN_DEAD_LETTERS: Final = ""  # TOPIC.GROUP.dead


class RejectMessage(HutongError):
    """Raise it in a handler: the message goes to the dead letters at once, without the retries."""


@dataclass(frozen=True, slots=True)
class Output:
    """A result with a key and headers of its own, for `to=`. Without a key it has the key of the message."""

    value: Any
    key: str | bytes | None = None
    headers: Sequence[tuple[str, str | bytes]] = ()
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class TopicHandler:
    """A handler of topics, with its options checked."""

    signature: HandlerSignature
    decode: Decode
    topics: tuple[str, ...]
    group: str
    retry: Retry
    dead_letters: str | None
    to: str | None
    concurrency: int
    batch: int | None
    batch_wait: float
    exactly_once: bool
    from_latest: bool
    grace: float

    @property
    def name(self) -> str:
        return self.signature.name


@dataclass(frozen=True, slots=True)
class AddressHandler:
    """A handler of an address of the event bus."""

    signature: HandlerSignature
    convert: Callable[[Any], Any]
    address: str


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """The keywords of `App.topic`; docs/handlers.md has them in a table."""

    group: str | None
    retries: int | Retry
    dead_letters: str | None
    to: str | None
    concurrency: int
    batch: int | None
    batch_wait: float
    exactly_once: bool
    start: Literal["earliest", "latest"]
    grace: float

    def checked(self, topics: Sequence[str], signature: HandlerSignature, decode: Decode) -> TopicHandler:
        """Raises UsageError for what cannot be."""
        where = f"{signature.name}, the handler of {', '.join(map(str, topics)) or 'no topic'}"
        if not topics:
            _refuse(f"{where}: name a topic, as in app.topic('orders', group='billing').")
        for topic in topics:
            checked_topic(topic, f"The topic {shown(topic)} of {signature.name}")
        if not self.group:
            _refuse(
                f"{where} needs a group, as in app.topic({topics[0]!r}, group='billing'): its members share the work."
            )
        group = checked_group(self.group, topics[0])
        if self.to is not None:
            checked_topic(self.to, f"The topic {shown(self.to)}, to which {signature.name} writes,")
        self._check_numbers(where)
        if self.start not in ("earliest", "latest"):
            _refuse(f"{where}: start is 'earliest' or 'latest', not {self.start!r}.")
        if self.exactly_once and self.to is None:
            _refuse(f"{where}: exactly_once is about the results; name their topic with to=.")
        return TopicHandler(
            signature,
            decode,
            tuple(topics),
            group,
            self.retries if isinstance(self.retries, Retry) else Retry(attempts=self.retries + 1),
            dead_letter_topic(topics[0], group, self.dead_letters),
            self.to,
            self.concurrency,
            self.batch,
            self.batch_wait,
            self.exactly_once,
            self.start == "latest",
            self.grace,
        )

    def _check_numbers(self, where: str) -> None:
        if not isinstance(self.retries, Retry) and not _is_count(self.retries, 0, 1_000_000):
            _refuse(f"{where}: retries is a number of further attempts, from 0, or a Retry, not {self.retries!r}.")
        if not _is_count(self.concurrency, 1, CONCURRENCY_MAX):
            _refuse(f"{where}: concurrency is from 1 to {CONCURRENCY_MAX}, not {self.concurrency!r}.")
        if self.batch is not None and not _is_count(self.batch, 1, BATCH_MAX):
            _refuse(f"{where}: batch is from 1 to {BATCH_MAX} messages, not {self.batch!r}.")
        if not 0 <= self.batch_wait <= BATCH_WAIT_S_MAX or not 0 <= self.grace <= BATCH_WAIT_S_MAX:
            _refuse(f"{where}: batch_wait and grace are seconds, from 0 to {BATCH_WAIT_S_MAX:.0f}.")


def _is_count(number: object, least: int, most: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and least <= number <= most


def _refuse(sentence: str) -> NoReturn:
    raise UsageError(sentence)
