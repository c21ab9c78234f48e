"""All conventions, and the record's letter by the first that knows it.

Of a record with headers of several programs the first in this list decides: it was given up there last, as a program
of this broker keeps the headers of others.
"""

from typing import Final

from hutong.bus.durable.records import RawHeaders, StoredRecord
from hutong.console.dead_letters.conventions.hutong import HutongLetters
from hutong.console.dead_letters.conventions.kafka import CONNECT, SHARE_GROUPS, STREAMS
from hutong.console.dead_letters.conventions.letter import Convention, DeadLetter
from hutong.console.dead_letters.conventions.pipelines import PipelineLetters
from hutong.console.dead_letters.conventions.rocketmq import RocketLetters
from hutong.console.dead_letters.conventions.spring import SpringLetters

UNKNOWN: Final = "unknown"
CONVENTIONS: Final[tuple[Convention, ...]] = (
    HutongLetters(),
    SHARE_GROUPS,
    CONNECT,
    STREAMS,
    SpringLetters(),
    RocketLetters(),
    PipelineLetters(),
)
_BY_NAME: Final = {convention.name: convention for convention in CONVENTIONS}
# Endings and beginnings of topics' names, in lower case; the separators differ from team to team.
_ENDINGS: Final = tuple(
    separator + word for separator in ".-_" for word in ("dead", "dead-letters", "dead_letters", "dlq", "dlt")
)
_BEGINNINGS: Final = tuple(word + separator for separator in ".-_" for word in ("dead-letters", "dlq", "dlt"))


def letter_of(record: StoredRecord) -> DeadLetter:
    """The reason and the origin of a record; one of the convention `unknown` where no header says them."""
    for convention in CONVENTIONS:
        letter = convention.read(record)
        if letter is not None:
            return letter
    return DeadLetter(UNKNOWN, time_ms=record.timestamp_ms)


def cleaned_headers(letter: DeadLetter, headers: RawHeaders) -> list[tuple[str, bytes | None]]:
    """The record's own headers, without those that made it a dead letter."""
    convention = _BY_NAME.get(letter.convention)
    return [*headers] if convention is None else convention.cleaned(headers)


def looks_dead(topic: str) -> bool:
    """True for a name that a topic of dead letters usually has. Any other topic may be opened as one."""
    name = topic.lower()
    return name.endswith(_ENDINGS) or name.startswith(_BEGINNINGS) or name in ("dead", "dlq", "dlt")
