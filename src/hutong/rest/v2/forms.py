"""Keys and values of the v2 API: JSON as it is, or base64. The content type says which.

Knows nothing of clients.
"""

import base64
import binascii
from typing import Any, Final

import msgspec

from hutong.web.answers import WebRefusal

V2_JSON: Final = "application/vnd.kafka.v2+json"
BINARY: Final = "binary"
JSON: Final = "json"
_TYPES: Final = {
    BINARY: "application/vnd.kafka.binary.v2+json",
    JSON: "application/vnd.kafka.json.v2+json",
}
BODY_TYPES: Final = tuple(_TYPES.values())


def type_of(form: str) -> str:
    """The content type of records in this form."""
    return _TYPES[form]


def form_of(content_type: str) -> str:
    """The form by the content type of a body, which its route has checked."""
    kind = content_type.partition(";")[0].strip().lower()
    return JSON if kind == _TYPES[JSON] else BINARY


def encode(value: Any, form: str) -> bytes | None:
    """The bytes of a key or a value in a body. Raises WebRefusal(422)."""
    if value is None:
        return None
    if form == JSON:
        return msgspec.json.encode(value)
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise WebRefusal(422, "keys and values are base64 in JSON strings here", 42205) from None


def decode(data: bytes | None, form: str) -> Any:
    """A key or a value for an answer. Raises WebRefusal(500), as the REST proxy, for what is no JSON."""
    if data is None:
        return None
    if form == BINARY:
        return base64.b64encode(data).decode()
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise WebRefusal(500, "a record is no JSON: read it with the format binary", 50002) from None
