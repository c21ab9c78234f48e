"""Keys and values of the v2 API: JSON as it is, base64, or JSON of a schema. The content type says which.

Knows nothing of clients.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hutong.foundation.errors import PeerError
from hutong.rest.records.decoding import decoded
from hutong.rest.records.schemas import AVRO, JSONSCHEMA, PROTOBUF, ValueReader
from hutong.web.answers import WebRefusal

V2_JSON: Final = "application/vnd.kafka.v2+json"
BINARY: Final = "binary"
JSON: Final = "json"
OF_SCHEMAS: Final = {"avro": AVRO, "jsonschema": JSONSCHEMA, "protobuf": PROTOBUF}
"""Forms whose keys and values have schemas, and the types of these in v3."""
FORMS: Final = (BINARY, JSON, *OF_SCHEMAS)
_TYPES: Final = {form: f"application/vnd.kafka.{form}.v2+json" for form in FORMS}
_FORMS: Final = {kind: form for form, kind in _TYPES.items()}
BODY_TYPES: Final = tuple(_TYPES.values())


def type_of(form: str) -> str:
    """The content type of records in this form."""
    return _TYPES[form]


def form_of(content_type: str) -> str:
    """The form by the content type of a body, which its route has checked."""
    return _FORMS.get(content_type.partition(";")[0].strip().lower(), BINARY)


def encode(value: Any, form: str) -> bytes | None:
    """The bytes of a key or a value that has no schema in a body. Raises WebRefusal(422)."""
    if value is None:
        return None
    if form == JSON:
        return msgspec.json.encode(value)
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise WebRefusal(422, "keys and values are base64 in JSON strings here", 42205) from None


def decode(data: bytes | None, form: str, readers: Mapping[int, ValueReader]) -> Any:
    """A key or a value for an answer; `readers` are its schemas. Raises WebRefusal(500), as the REST proxy does."""
    if data is None:
        return None
    if form in OF_SCHEMAS:
        return _decode_by_schema(data, form, readers)
    if form == BINARY:
        return base64.b64encode(data).decode()
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise WebRefusal(500, "a record is no JSON: read it with the format binary", 50002) from None


def _decode_by_schema(data: bytes, form: str, readers: Mapping[int, ValueReader]) -> Any:
    try:
        reader, schema_id, value = decoded(data, readers)
    except PeerError as error:
        raise WebRefusal(500, f"a record has no schema here: {error}; read it with the format binary", 50002) from None
    if reader.type != OF_SCHEMAS[form]:
        raise WebRefusal(500, f"a record's schema {schema_id} is of type {reader.type}, not {form}", 50002)
    return value
