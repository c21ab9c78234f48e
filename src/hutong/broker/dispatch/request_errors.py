"""Requests that failed, by API and error code, as Kafka counts them (RequestMetrics' ErrorsPerSec).

Strategy: which fields of an answer are error codes follows from its table; a reader for them is made once for each API.
An answer without an error costs one call of its reader, and nothing is counted: all other requests had none. An answer
with several errors counts once for each code that it has.

Knows nothing of what the codes mean.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from hutong.wire.kafka.registry import APIS
from hutong.wire.kafka.schema import Array, Struct, rows_of

_OTHER_NAMES: Final = frozenset(("acknowledge_error_code", "partition_error_code"))

ErrorReader = Callable[[Any], "set[int] | None"]
"""The error codes in an answer, or in a part of it; None where it has none."""


class RequestErrors:
    """Counts of failed requests, for all APIs. Totals rise for as long as the node runs."""

    def __init__(self) -> None:
        self.totals: dict[tuple[int, int], int] = {}  # by API and code
        self.failed_total: dict[int, int] = {}  # by API: answers with any error

    def note(self, api_key: int, codes: set[int], answers: int = 1) -> None:
        """Count answers with these errors."""
        self.failed_total[api_key] = self.failed_total.get(api_key, 0) + answers
        for code in codes:
            self.totals[api_key, code] = self.totals.get((api_key, code), 0) + answers


def errors_in(api_key: int) -> ErrorReader:
    """The reader for an API's answers."""
    return _reader_of(APIS[api_key].response) or _no_error


def _reader_of(table: type[Any]) -> ErrorReader | None:
    """The reader for a table of the wire; None where it has no error code."""
    readers: list[ErrorReader] = []
    for name, row in rows_of(table):
        if name == "error_code":
            readers.append(_error_code)
        elif name in _OTHER_NAMES:
            readers.append(_named(name))
        # Codes of topics and partitions are in lists of tables, at any depth.
        elif isinstance(row.wire_type, Array) and isinstance(row.wire_type.element, Struct):
            reader = _reader_of(row.wire_type.element.table)
            if reader is not None:
                readers.append(_codes_of(name) if reader is _error_code else _each(name, reader))
    # Most answers have one place for codes: their reader is called without a loop around it.
    if len(readers) < 2:
        return readers[0] if readers else None
    return _together(readers)


def _no_error(_answer: Any) -> set[int] | None:
    return None


def _error_code(answer: Any) -> set[int] | None:
    return {answer.error_code} if answer.error_code else None


def _named(name: str) -> ErrorReader:
    def read(answer: Any) -> set[int] | None:
        code = getattr(answer, name)
        return {code} if code else None

    return read


def _codes_of(name: str) -> ErrorReader:
    """The reader for a list of parts with one code each, such as partitions: there may be thousands."""
    parts_of = attrgetter(name)

    def read(answer: Any) -> set[int] | None:
        codes = {part.error_code for part in parts_of(answer) or ()}
        codes.discard(0)
        return codes or None

    return read


def _each(name: str, read_part: ErrorReader) -> ErrorReader:
    parts_of = attrgetter(name)

    def read(answer: Any) -> set[int] | None:
        found: set[int] | None = None
        for part in parts_of(answer) or ():
            codes = read_part(part)
            if codes is not None:
                found = codes if found is None else found | codes
        return found

    return read


def _together(readers: list[ErrorReader]) -> ErrorReader:
    def read(answer: Any) -> set[int] | None:
        found: set[int] | None = None
        for reader in readers:
            codes = reader(answer)
            if codes is not None:
                found = codes if found is None else found | codes
        return found

    return read
