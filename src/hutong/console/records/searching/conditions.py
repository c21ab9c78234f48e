"""The conditions of a search, all of which a record must meet.

Strategy: cheap ones first: partition, offset and time, then texts, then a path, for which a document is decoded once.
At most VALUE_BYTES_MAX of a key, a value or a header are looked at, so a record's cost has a bound.

Knows nothing of clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hutong.console.limits import VALUE_BYTES_MAX
from hutong.console.records.decoding.schema_form import read_by_schema, schema_id_of
from hutong.console.records.decoding.shown import OtherForm
from hutong.console.records.searching.json_path import JsonCondition
from hutong.console.records.searching.patterns import Pattern

if TYPE_CHECKING:
    from hutong.bus.durable.records import StoredRecord
    from hutong.console.records.decoding.shown import SchemaOf

KEY, VALUE, HEADERS, ANYWHERE = "key", "value", "headers", "anywhere"
PLACES: Final = (ANYWHERE, KEY, VALUE, HEADERS)
OFFSET_END: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class TextCondition:
    """A pattern in one of PLACES."""

    pattern: Pattern
    place: str = ANYWHERE


@dataclass(frozen=True, slots=True)
class Conditions:
    """Ranges include their begin and exclude their end."""

    texts: tuple[TextCondition, ...] = ()
    paths: tuple[tuple[str, JsonCondition], ...] = ()  # in the key or the value
    partitions: frozenset[int] | None = None
    offset_begin: int = 0
    offset_end: int = OFFSET_END
    time_begin_ms: int | None = None
    time_end_ms: int | None = None

    def hold(self, record: StoredRecord, schema_of: SchemaOf | None = None) -> bool:
        """True where the record meets all of them; `schema_of` reads keys and values that begin with a schema's id."""
        if self.partitions is not None and record.partition not in self.partitions:
            return False
        if not self.offset_begin <= record.offset < self.offset_end:
            return False
        if self.time_begin_ms is not None and record.timestamp_ms < self.time_begin_ms:
            return False
        if self.time_end_ms is not None and record.timestamp_ms >= self.time_end_ms:
            return False
        return all(_is_there(each, record) for each in self.texts) and self._paths_hold(record, schema_of)

    def _paths_hold(self, record: StoredRecord, schema_of: SchemaOf | None) -> bool:
        documents: dict[str, Any] = {}
        for place, condition in self.paths:
            if place not in documents:
                documents[place] = _document(record.key if place == KEY else record.value, schema_of)
            if documents[place] is _NO_DOCUMENT or not condition.holds(documents[place]):
                return False
        return True


_NO_DOCUMENT: Final = object()


def _document(data: bytes | None, schema_of: SchemaOf | None) -> Any:
    """The value of a document: JSON, or of a schema. Bytes that are none meet no condition on a path."""
    if data is None or len(data) > VALUE_BYTES_MAX:
        return _NO_DOCUMENT
    # No JSON begins with the byte 0.
    if schema_of is not None and schema_id_of(data) is not None:
        try:
            return read_by_schema(data, schema_of)[0]
        except OtherForm:
            return _NO_DOCUMENT
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _NO_DOCUMENT


def _is_there(condition: TextCondition, record: StoredRecord) -> bool:
    place, pattern = condition.place, condition.pattern
    if place in (KEY, ANYWHERE) and _in(pattern, record.key):
        return True
    if place in (VALUE, ANYWHERE) and _in(pattern, record.value):
        return True
    if place not in (HEADERS, ANYWHERE):
        return False
    left = VALUE_BYTES_MAX
    for name, value in record.headers:
        if pattern.is_in(name.encode(errors="replace")[:left]) or _in(pattern, value, left):
            return True
        left -= len(name) + len(value or b"")
        if left <= 0:
            break
    return False


def _in(pattern: Pattern, data: bytes | None, bytes_max: int = VALUE_BYTES_MAX) -> bool:
    return data is not None and pattern.is_in(data[:bytes_max])
