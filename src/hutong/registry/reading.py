"""Schemas that read what was written by them, for people who look at records.

Strategy: a schema is found and parsed once and remembered. Values come as what JSON has, and bytes.

Knows no topics and no HTTP. Formats are imported when first needed.
"""

from typing import Any

import msgspec

from hutong.foundation.errors import ProtocolError
from hutong.registry.checks import ResolvedText, SchemaChecks
from hutong.registry.formats.shape import ParsedSchema


class WrittenBySchema:
    """One schema. Its methods block for as long as a value takes; any thread may call them."""

    def __init__(self, schema: ResolvedText, checks: SchemaChecks) -> None:
        """Raises Refused for a schema that is none."""
        self.type = schema.text.schema_type
        self._parsed = checks.parsed(schema)
        self.name = _name(self._parsed)

    def read(self, payload: bytes) -> Any:
        """The value. Raises ProtocolError for one that this schema has not written."""
        if self.type == "AVRO":
            return _read_avro(self._parsed, payload)
        if self.type == "PROTOBUF":
            return _read_protobuf(self._parsed, payload)
        try:
            return msgspec.json.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"it is no JSON: {error}") from None


def _read_avro(parsed: ParsedSchema, payload: bytes) -> Any:
    from hutong.registry.formats.avro import AvroSchema
    from hutong.registry.formats.avro_values import read_avro

    assert isinstance(parsed, AvroSchema)
    return read_avro(parsed.type, payload)


def _read_protobuf(parsed: ParsedSchema, payload: bytes) -> Any:
    from hutong.registry.formats.proto_values import read_protobuf
    from hutong.registry.formats.protobuf import ProtobufSchema

    assert isinstance(parsed, ProtobufSchema)
    return read_protobuf(parsed.descriptor, payload)[1]


def _name(parsed: ParsedSchema) -> str:
    type_ = getattr(parsed, "type", None)
    return "" if type_ is None else str(type_.name)
