"""Schemas that read what was written by them, for people who look at records; and that write what JSON has.

Strategy: a schema is found and parsed once and remembered. Values come as what JSON has, and bytes.

Knows no topics and no HTTP. Formats are imported when first needed.
"""

from typing import Any

import msgspec

from hutong.foundation.errors import ProtocolError
from hutong.registry.checks import ResolvedText, SchemaChecks
from hutong.registry.formats.shape import ParsedSchema
from hutong.registry.formats.writing.steps import WriteSteps


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

    def read_json(self, payload: bytes) -> Any:
        """The value in its format's own JSON, as `write` takes it. Raises ProtocolError."""
        if self.type == "AVRO":
            return _read_avro(self._parsed, payload, as_json=True)
        return _read_protobuf_json(self._parsed, payload) if self.type == "PROTOBUF" else self.read(payload)

    @property
    def record_name(self) -> str:
        """The name by which strategies make subjects: of the record, of the file's first message, or the title."""
        if self.type == "AVRO":
            return self.name
        return _first_message(self._parsed) if self.type == "PROTOBUF" else _title(self._parsed)

    def write(self, value: Any, steps: WriteSteps) -> bytes:
        """The payload for a value of JSON. Raises ProtocolError for one that is not of this schema."""
        if self.type == "AVRO":
            return _write_avro(self._parsed, value, steps)
        if self.type == "PROTOBUF":
            return _write_protobuf(self._parsed, value, steps)
        return _write_json(self._parsed, value, steps)


def _read_avro(parsed: ParsedSchema, payload: bytes, *, as_json: bool = False) -> Any:
    from hutong.registry.formats.avro import AvroSchema
    from hutong.registry.formats.avro_values import read_avro, read_avro_json

    assert isinstance(parsed, AvroSchema)
    return read_avro_json(parsed.type, payload) if as_json else read_avro(parsed.type, payload)


def _read_protobuf(parsed: ParsedSchema, payload: bytes) -> Any:
    from hutong.registry.formats.proto_values import read_protobuf
    from hutong.registry.formats.protobuf import ProtobufSchema

    assert isinstance(parsed, ProtobufSchema)
    return read_protobuf(parsed.descriptor, payload)[1]


def _read_protobuf_json(parsed: ParsedSchema, payload: bytes) -> Any:
    from hutong.registry.formats.proto_values import read_protobuf_json
    from hutong.registry.formats.protobuf import ProtobufSchema

    assert isinstance(parsed, ProtobufSchema)
    return read_protobuf_json(parsed.descriptor, payload)


def _write_avro(parsed: ParsedSchema, value: Any, steps: WriteSteps) -> bytes:
    from hutong.registry.formats.avro import AvroSchema
    from hutong.registry.formats.writing.avro import write_avro

    assert isinstance(parsed, AvroSchema)
    return write_avro(parsed.type, value, steps)


def _write_protobuf(parsed: ParsedSchema, value: Any, steps: WriteSteps) -> bytes:
    from hutong.registry.formats.protobuf import ProtobufSchema
    from hutong.registry.formats.writing.protobuf import write_protobuf

    assert isinstance(parsed, ProtobufSchema)
    return write_protobuf(parsed.descriptor, value, steps)


def _write_json(parsed: ParsedSchema, value: Any, steps: WriteSteps) -> bytes:
    from hutong.registry.formats.json_schema import JsonSchema
    from hutong.registry.formats.writing.json_schema import check_json

    assert isinstance(parsed, JsonSchema)
    check_json(parsed, value, steps)
    return msgspec.json.encode(value)


def _name(parsed: ParsedSchema) -> str:
    type_ = getattr(parsed, "type", None)
    return "" if type_ is None else str(type_.name)


def _first_message(parsed: ParsedSchema) -> str:
    from hutong.registry.formats.protobuf import ProtobufSchema
    from hutong.registry.formats.writing.protobuf import first_message

    assert isinstance(parsed, ProtobufSchema)
    message = first_message(parsed.descriptor)
    return "" if message is None else str(message.full_name)


def _title(parsed: ParsedSchema) -> str:
    from hutong.registry.formats.json_schema import JsonSchema

    assert isinstance(parsed, JsonSchema)
    title = parsed.json.get("title") if isinstance(parsed.json, dict) else None
    return title if isinstance(title, str) else ""
