"""A dead letter as the record that goes back: key, value and headers of its own, and a header with its way.

The partition follows from the key, as for every producer: the topic may have more of them by now. Its time is that of
writing, since retention could delete a record of an old time at once.
"""

from typing import Final

from hutong.bus.durable.records import OutgoingRecord, StoredRecord
from hutong.console.dead_letters.conventions.known import cleaned_headers
from hutong.console.dead_letters.conventions.letter import DeadLetter

WAY_HEADER: Final = "hutong-redriven-from"
WAYS_MAX: Final = 10  # a record that fails again and again would grow for ever
_BETWEEN: Final = b", "


def returned_record(record: StoredRecord, letter: DeadLetter, target: str) -> OutgoingRecord:
    """The record for `target`. The way has a place for each redrive, the latest at the end."""
    headers = cleaned_headers(letter, record.headers)
    before = b"".join([(value or b"")[:4_000] for name, value in headers if name == WAY_HEADER][-1:])
    ways = before.split(_BETWEEN)[-(WAYS_MAX - 1) :] if before else []
    here = f"{record.topic}/{record.partition}/{record.offset}".encode()
    kept = [(name, value) for name, value in headers if name != WAY_HEADER]
    return OutgoingRecord(target, record.key, record.value, [*kept, (WAY_HEADER, _BETWEEN.join([*ways, here]))])
