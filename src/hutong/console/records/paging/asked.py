"""The beginning of a page, as a query says it.

from=newest (the default) | oldest | offset (and offset=N) | time (and time_ms=N)
before=PLACE | after=PLACE    the pages next to one that was shown; a place is `partition:offset,...`
partitions=0,1                these alone
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hutong.console.limits import PAGE_RECORDS_DEFAULT, PAGE_RECORDS_MAX, READ_PARTITIONS_MAX
from hutong.rest.reading.live import decode_positions
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from hutong.web.requests import WebRequest

NEWEST, OLDEST, OFFSET, TIME, BEFORE, AFTER = "newest", "oldest", "offset", "time", "before", "after"
_STARTS: Final = (NEWEST, OLDEST, OFFSET, TIME)
NUMBER_MAX: Final = 10**18
"""Of offsets and times: what fits 18 digits, as places are written."""
_PARTITION_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class AskedPage:
    """`number` is an offset or a time; `positions` a place of an earlier page."""

    start: str
    records_max: int
    partitions: frozenset[int] | None
    number: int = 0
    positions: dict[int, int] | None = None

    @property
    def is_newest_first(self) -> bool:
        return self.start in (NEWEST, BEFORE)


def asked_page(request: WebRequest) -> AskedPage:
    """Raises WebRefusal(400)."""
    records_max = request.integer("limit", PAGE_RECORDS_DEFAULT, 1, PAGE_RECORDS_MAX)
    partitions = partitions_asked(request.query.get("partitions", ""))
    for start in (BEFORE, AFTER):
        if start in request.query:
            positions = decode_positions(request.query[start])
            return AskedPage(start, records_max, partitions, positions=positions)
    start = request.query.get("from", NEWEST)
    if start not in _STARTS:
        raise WebRefusal(400, f"from is one of {', '.join(_STARTS)}")
    number = 0
    if start in (OFFSET, TIME):
        name = "offset" if start == OFFSET else "time_ms"
        if name not in request.query:
            raise WebRefusal(400, f"from={start} needs {name}")
        number = request.integer(name, 0, 0, NUMBER_MAX)
    return AskedPage(start, records_max, partitions, number)


def partitions_asked(text: str) -> frozenset[int] | None:
    """The partitions of `0,1`; None for all of them. Raises WebRefusal(400)."""
    if not text.strip():
        return None
    found = text.split(",", READ_PARTITIONS_MAX)
    numbers = [each.strip() for each in found]
    if len(found) > READ_PARTITIONS_MAX or not all(each.isascii() and each.isdigit() for each in numbers):
        raise WebRefusal(400, f"partitions is a list such as 0,1 of at most {READ_PARTITIONS_MAX} numbers")
    if any(len(each) > 10 or int(each) > _PARTITION_MAX for each in numbers):
        raise WebRefusal(404, "The topic has no partition of such a number.", 40403)
    return frozenset(int(each) for each in numbers)
