"""A dead letter as a console shows it, and the reading of its headers, within bounds.

Strategy: headers are written by anybody, so each one is text or a number of bounded size, or it is left out; a record
with one good header is a dead letter, and what is missing is None.

Knows no convention.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from hutong.bus.durable.addresses import TOPIC_CHARS_MAX
from hutong.bus.durable.records import RawHeaders, StoredRecord

TEXT_CHARS_MAX: Final = 2_000
INTEGER_DIGITS_MAX: Final = 18
_TOPIC: Final = re.compile(rf"[a-zA-Z0-9._-]{{1,{TOPIC_CHARS_MAX}}}", re.ASCII)
_INTERNAL: Final = "__"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The reason and the origin of a record. `time_ms` is that of the record at its origin or of its failure."""

    convention: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    error_type: str | None = None
    error_text: str | None = None
    attempts: int | None = None
    time_ms: int | None = None
    group: str | None = None

    @property
    def reason(self) -> str:
        """The reason in few words, by which letters are counted."""
        return self.error_type or (self.error_text or "").partition("\n")[0][:100] or "no reason given"


class Convention(Protocol):
    """The headers of one kind of program."""

    @property
    def name(self) -> str: ...

    def read(self, record: StoredRecord) -> DeadLetter | None:
        """The letter, or None where the record has none of the headers."""
        ...

    def cleaned(self, headers: RawHeaders) -> list[tuple[str, bytes | None]]:
        """The headers that the record had before it became a letter."""
        ...


class HeaderValues:
    """The last value of each header, as text or number."""

    def __init__(self, headers: RawHeaders) -> None:
        self._values = {name: value for name, value in headers if value is not None}

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def has_any(self, names: Iterable[str]) -> bool:
        return any(name in self._values for name in names)

    def raw(self, name: str) -> bytes | None:
        return self._values.get(name)

    def text(self, name: str) -> str | None:
        value = self._values.get(name)
        # Cut as bytes first: a stack trace may have a megabyte.
        return None if value is None else value[: 4 * TEXT_CHARS_MAX].decode(errors="replace")[:TEXT_CHARS_MAX]

    def topic(self, name: str) -> str | None:
        """The name of a topic to which records may go back; None for one that no topic for records has."""
        return legal_topic(self.text(name))

    def number(self, name: str) -> int | None:
        """A whole number from 0, in decimal digits."""
        value = self._values.get(name)
        if value is None or not value.isdigit() or len(value) > INTEGER_DIGITS_MAX:
            return None
        return int(value)


def legal_topic(name: str | None) -> str | None:
    """The name, or None where records cannot go there: a header could name an internal topic, too."""
    if name is None or not _TOPIC.fullmatch(name) or name in (".", "..") or name.startswith(_INTERNAL):
        return None
    return name


def without_prefix(headers: RawHeaders, *prefixes: str) -> list[tuple[str, bytes | None]]:
    """The headers whose names begin with none of these."""
    return [(name, value) for name, value in headers if not name.startswith(prefixes)]
