"""Values with the id of a schema before them: the byte 0, four bytes of the id, and the payload (Confluent's format).

Knows no format of schemas.
"""

from typing import Any, Final

from hutong.console.limits import VALUE_BYTES_MAX
from hutong.console.records.decoding.shown import OtherForm, SchemaFacts, SchemaOf
from hutong.foundation.errors import PeerError

_PREFIX_BYTES: Final = 5


def schema_id_of(data: bytes) -> int | None:
    """The id; None where the bytes do not begin as such values do."""
    if len(data) < _PREFIX_BYTES or data[0]:
        return None
    return int.from_bytes(data[1:_PREFIX_BYTES]) or None  # ids begin with 1


def read_by_schema(data: bytes, schema_of: SchemaOf) -> tuple[Any, SchemaFacts]:
    """The value and its schema. Raises OtherForm."""
    schema_id = schema_id_of(data)
    if schema_id is None:
        raise OtherForm("it does not begin with the byte 0 and the id of a schema")
    if len(data) > VALUE_BYTES_MAX:
        raise OtherForm(f"it is longer than the {VALUE_BYTES_MAX >> 20} MiB that are looked at by a schema")
    try:
        schema = schema_of(schema_id)
        if schema is None:
            raise OtherForm(f"it begins as a value of schema {schema_id}, which is not known here")
        value = schema.read(data[_PREFIX_BYTES:])
    except OtherForm:
        raise
    except PeerError as error:
        raise OtherForm(f"it begins as a value of schema {schema_id}, and is none: {error}") from None
    return value, SchemaFacts(schema_id, schema.type, schema.name)
