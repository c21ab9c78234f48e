"""Records as JSON: bytes as text where they are text, else as base64.

Knows nothing of clients.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from hutong.foundation.errors import PeerError
from hutong.rest.records.decoding import decoded
from hutong.rest.records.v3_bodies import BINARY, JSON_TYPE, STRING
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hutong.bus.durable.records import StoredRecord
    from hutong.rest.records.schemas import ValueReader

FORMATS: Final = ("auto", "binary", "string", "json")
SCHEMA: Final = "schema"
Readers: TypeAlias = "Mapping[int, ValueReader]"
_NO_READERS: Final[Readers] = {}


def checked_format(name: str, *others: str) -> str:
    """Raises WebRefusal(400)."""
    if name not in (*FORMATS, *others):
        raise WebRefusal(400, f"format is one of {', '.join((*FORMATS, *others))}")
    return name


def record_shown(record: StoredRecord, form: str, readers: Readers = _NO_READERS) -> dict[str, Any]:
    """A record as an object. Keys and values have the shape in which v3 takes them; `readers` are for `schema`."""
    headers = record.headers
    return {
        "topic_name": record.topic,
        "partition_id": record.partition,
        "offset": record.offset,
        "timestamp": time_shown(record.timestamp_ms),
        "headers": [{"name": name, "value": None if value is None else _base64(value)} for name, value in headers],
        "key": payload_shown(record.key, form, readers),
        "value": payload_shown(record.value, form, readers),
    }


def payload_shown(data: bytes | None, form: str, readers: Readers = _NO_READERS) -> dict[str, Any] | None:
    """A key or a value. What is no JSON is shown as text, and what is no text as base64; the type says which."""
    if data is None:
        return None
    if form == SCHEMA:
        try:
            reader, schema_id, value = decoded(data, readers)
            return {"type": reader.type, "schema_id": schema_id, "data": value}
        # Of a topic that has others as well.
        except PeerError:
            pass
    # Each is tried in turn: a key is seldom JSON where its value is.
    if form == "json":
        try:
            return {"type": JSON_TYPE, "data": msgspec.json.decode(data)}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    if form != "binary":
        try:
            return {"type": STRING, "data": data.decode()}
        except UnicodeDecodeError:
            pass
    return {"type": BINARY, "data": _base64(data)}


def time_shown(timestamp_ms: int) -> datetime | None:
    """The time for JSON; None for one that is not there, or that no calendar has: producers send any 64 bits."""
    try:
        return None if timestamp_ms < 0 else datetime.fromtimestamp(timestamp_ms / 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
