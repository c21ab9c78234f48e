"""Records as JSON for the pages: keys, values and headers decoded, within bounds.

Knows nothing of clients.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hutong.console.limits import HEADER_CHARS_MAX, HEADERS_SHOWN_MAX, PREVIEW_CHARS_MAX, VALUE_BYTES_MAX
from hutong.console.records.decoding.decode import AUTO, FORMS, PayloadDecoder
from hutong.console.records.decoding.shown import ShownBytes
from hutong.console.records.seen import SeenRecord, WholeSizes
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from hutong.bus.durable.records import StoredRecord
    from hutong.web.requests import WebRequest


@dataclass(frozen=True, slots=True)
class AskedForms:
    """The forms that the user chose, and how much of a value is shown."""

    key: str = AUTO
    value: str = AUTO
    chars_max: int = PREVIEW_CHARS_MAX


def asked_forms(request: WebRequest, chars_default: int = PREVIEW_CHARS_MAX) -> AskedForms:
    """Raises WebRefusal(400)."""
    key, value = request.query.get("key_form", AUTO), request.query.get("value_form", AUTO)
    for each in (key, value):
        if each not in FORMS:
            raise WebRefusal(400, f"a form is one of {', '.join(FORMS)}")
    return AskedForms(key, value, request.integer("chars", chars_default, 1, VALUE_BYTES_MAX))


def shown_record(record: StoredRecord, decoder: PayloadDecoder, forms: AskedForms) -> dict[str, Any]:
    """One record."""
    headers = record.headers[:HEADERS_SHOWN_MAX]
    whole = getattr(record, "whole", None) or WholeSizes(_size(record.key), _size(record.value), len(record.headers))
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": getattr(record, "timestamp_type", None),
        "leader_epoch": getattr(record, "leader_epoch", None),
        "size_bytes": record.size_bytes,
        "is_masked": getattr(record, "is_masked", False),
        "key": _shown(_payload(decoder, record.key, whole.key_bytes, forms.key, forms.chars_max)),
        "value": _shown(_payload(decoder, record.value, whole.value_bytes, forms.value, forms.chars_max)),
        "headers": [
            {"name": name[:HEADER_CHARS_MAX], "value": _shown(decoder.show(value, AUTO, HEADER_CHARS_MAX))}
            for name, value in headers
        ],
        "headers_count": whole.headers,
    }


def raw_record(record: SeenRecord) -> dict[str, Any]:
    """The bytes of a record as base64, for one that is edited. Raises WebRefusal: 403 for a masked one, 413."""
    if record.is_masked:
        raise WebRefusal(403, "Parts of this record are masked, so it cannot be edited here.", 40304)
    if record.size_bytes > VALUE_BYTES_MAX:
        raise WebRefusal(413, f"A record above {VALUE_BYTES_MAX >> 20} MiB cannot be edited here.", 41301)
    return {
        "key": _base64(record.key),
        "value": _base64(record.value),
        "headers": [(name, _base64(value)) for name, value in record.headers],
    }


def shown_records(records: Sequence[StoredRecord], decoder: PayloadDecoder, forms: AskedForms) -> list[dict[str, Any]]:
    return [shown_record(each, decoder, forms) for each in records]


def _payload(decoder: PayloadDecoder, data: bytes | None, whole_bytes: int, form: str, chars_max: int) -> ShownBytes:
    if data is not None and len(data) < whole_bytes:
        return decoder.show_cut(data, whole_bytes, form, chars_max)
    return decoder.show(data, form, chars_max)


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _shown(shown: ShownBytes) -> dict[str, Any] | None:
    """None for a key or a value that is missing."""
    if shown.size_bytes < 0:
        return None
    schema = shown.schema
    return {
        "form": shown.form,
        "why": shown.why,
        # JSON's escapes may make lone surrogates, which UTF-8 has not.
        "text": shown.text.encode(errors="replace").decode(),
        "size_bytes": shown.size_bytes,
        "is_whole": shown.is_whole,
        "notes": list(shown.notes),
        "schema": None if schema is None else {"id": schema.id, "type": schema.type, "name": schema.name},
    }
