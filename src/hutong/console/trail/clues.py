"""The clue by which records belong together: a key, a trace, a value of a header, or a record's place.

Strategy: a clue is compared with whole values, never searched for within them, so a record costs one comparison and one
look at each header. Dead letters say where they came from, so a place finds its letters, too.

Knows no client.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hutong.console.dead_letters.conventions.known import UNKNOWN, letter_of
from hutong.foundation.trace_context import TRACEPARENT, parse_traceparent

if TYPE_CHECKING:
    from hutong.bus.durable.records import StoredRecord

KEY, TRACE, HEADER, PLACE = "key", "trace", "header", "place"
KINDS: Final = (KEY, TRACE, HEADER, PLACE)
HEADERS_LOOKED_AT_MAX: Final = 100
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_B3: Final = ("b3", "x-b3-traceid")  # of OpenZipkin: `b3` is TRACE-SPAN-..., the other one the id alone


@dataclass(frozen=True, slots=True)
class Clue:
    """`text` is the key, the trace's id in hex, or the header's value; `name` the header's name or the place's topic.

    Raises ValueError for a trace id that is none.
    """

    kind: str
    text: str = ""
    name: str = ""
    partition: int = 0
    offset: int = 0

    def __post_init__(self) -> None:
        if self.kind == TRACE and not _TRACE_ID.fullmatch(self.text):
            raise ValueError("A trace's id has 32 digits in hex, as in the second part of a traceparent.")

    def reason(self, record: StoredRecord) -> str | None:
        """The words for why the record belongs here, None where it does not."""
        if self.kind == KEY:
            return "same key" if record.key == self.text.encode() else None
        if self.kind == TRACE:
            return "same trace" if self._is_of_trace(record) else None
        if self.kind == HEADER:
            wanted = (self.name, self.text.encode())
            return "same header" if wanted in record.headers[:HEADERS_LOOKED_AT_MAX] else None
        return self._reason_by_place(record)

    def _is_of_trace(self, record: StoredRecord) -> bool:
        for name, value in record.headers[:HEADERS_LOOKED_AT_MAX]:
            if value is None:
                continue
            lower = name.lower()
            if lower == TRACEPARENT:
                ids = parse_traceparent(value)
                if ids is not None and ids[0] == int(self.text, 16):
                    return True
            elif lower in _B3 and value[:32] == self.text.encode():
                return True
        return False

    def _reason_by_place(self, record: StoredRecord) -> str | None:
        if (record.topic, record.partition, record.offset) == (self.name, self.partition, self.offset):
            return "the record"
        letter = letter_of(record)
        if letter.convention == UNKNOWN:
            return None
        came_from = (letter.topic, letter.partition, letter.offset)
        return "its dead letter" if came_from == (self.name, self.partition, self.offset) else None


def trace_of(record: StoredRecord) -> str | None:
    """The trace's id in the record's headers, None where there is none."""
    for name, value in record.headers[:HEADERS_LOOKED_AT_MAX]:
        if name.lower() == TRACEPARENT and value is not None:
            ids = parse_traceparent(value)
            if ids is not None:
                return f"{ids[0]:032x}"
    return None
