"""Bodies of the v3 API that produce: one JSON object for each record, any number of them one after the other.

Knows nothing of clients and connections.
"""

import base64
import binascii
import json
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from hutong.bus.durable.records import OutgoingRecord
from hutong.rest.limits import HEADERS_OF_RECORD_MAX, RECORDS_OF_REQUEST_MAX
from hutong.rest.records.schemas import REGISTERED
from hutong.web.answers import WebRefusal

BINARY, STRING, JSON_TYPE = "BINARY", "STRING", "JSON"
_OTHERS: Final = ", ".join(REGISTERED)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PARTITION_MAX: Final = 2**31 - 1
_decode_object = json.JSONDecoder().raw_decode
T = TypeVar("T")


class Payload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key or a value; a `data` of null is none at all.

    Without a type it is BINARY, which is base64 in JSON, unless it names a schema (`schemas`).
    """

    data: Any = None
    type: str | None = None
    subject: str | None = None
    subject_name_strategy: str | None = None
    schema_id: int | None = None
    schema_version: int | None = None
    schema: str | None = None


class HeaderBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`value` is base64."""

    name: str
    value: str | None = None


class RecordBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One record. `timestamp` is RFC 3339.

    A member with another name is refused, as the REST proxy does: a misspelt `value` would be stored as none.
    """

    partition_id: int | None = None
    headers: list[HeaderBody] = []
    key: Payload | None = None
    value: Payload | None = None
    timestamp: datetime | None = None


class BatchEntry(RecordBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One record of a batch, with the id by which the answer names it."""

    id: str


class BatchBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    entries: list[BatchEntry]


def decode_objects(body: bytes, kind: type[T]) -> list[T]:
    """Decode JSON objects that follow each other, with white space between them or none.

    Raises WebRefusal(400) for no object, for too many, and for one that is wrong, whose number it names.
    """
    try:
        return [msgspec.json.decode(body, type=kind)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # Most bodies have one object, which msgspec alone decodes several times faster.
        if "trailing characters" not in str(error):
            raise WebRefusal(400, f"The body is not what is expected here: {error}") from None
    return _decode_several(body, kind)


def _decode_several(body: bytes, kind: type[T]) -> list[T]:
    found: list[T] = []
    try:
        text = body.decode()
        position = _next(text, 0)
        while position < len(text):
            if len(found) >= RECORDS_OF_REQUEST_MAX:
                raise WebRefusal(413, f"a request has at most {RECORDS_OF_REQUEST_MAX} records", 41301)
            end = _decode_object(text, position)[1]
            # It finds the end alone: it takes NaN, numbers that no double has, and halves of surrogates.
            found.append(msgspec.json.decode(text[position:end], type=kind))
            position = _next(text, end)
    except (ValueError, msgspec.DecodeError, RecursionError) as error:
        raise WebRefusal(400, f"Record {len(found)} is not what is expected here: {error}") from None
    return found


def _next(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def record_of(topic: str, body: RecordBody, key: bytes | None, value: bytes | None) -> OutgoingRecord:
    """The record with these bytes. Raises WebRefusal(400)."""
    if len(body.headers) > HEADERS_OF_RECORD_MAX:
        raise WebRefusal(400, f"a record has at most {HEADERS_OF_RECORD_MAX} headers")
    if body.partition_id is not None and not 0 <= body.partition_id <= _PARTITION_MAX:
        raise WebRefusal(400, f"{body.partition_id} is no number of a partition")
    headers = [(each.name, None if each.value is None else _binary(each.value, "a header")) for each in body.headers]
    timestamp_ms = None if body.timestamp is None else _timestamp_ms(body.timestamp)
    return OutgoingRecord(topic, key, value, headers, body.partition_id, timestamp_ms)


def bytes_of(payload: Payload, what: str) -> bytes:
    """The bytes of a key or a value whose type needs no schema. Raises WebRefusal(400)."""
    match payload.type:
        case None | "BINARY":
            return _binary(payload.data, what)
        case "STRING":
            if not isinstance(payload.data, str):
                raise WebRefusal(400, f"{what} of type STRING is a JSON string")
            return payload.data.encode()
        case "JSON":
            return msgspec.json.encode(payload.data)
        case other:
            raise WebRefusal(400, f"{what} has the type {other[:50]!r}; there are BINARY, STRING, JSON, {_OTHERS}")


def _binary(data: Any, what: str) -> bytes:
    """Raises WebRefusal."""
    try:
        return base64.b64decode(data, validate=True)
    # Something else than a string, and a string that is no base64.
    except (TypeError, ValueError, binascii.Error):
        raise WebRefusal(400, f"{what} of type BINARY is base64 in a JSON string") from None


def _timestamp_ms(time: datetime) -> int:
    if time.tzinfo is None:
        raise WebRefusal(400, "a timestamp has a time zone, as 2026-01-02T03:04:05Z has")
    found = (time - _EPOCH) // (datetime.resolution * 1_000)
    # 0 means the producer's own time to the client library, and Kafka has no earlier ones.
    if found <= 0:
        raise WebRefusal(400, "a timestamp is after 1970-01-01T00:00:00Z")
    return found
