"""Schemas understood and compared: work for a worker's thread, since a large schema takes a while.

Strategy: what is needed of the registry arrives as values, so nothing is shared with the loop. Formats are imported
when first needed. Parsed schemas are remembered, because a registration compares with those before it.

Knows no topics and no HTTP.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

from hutong.foundation.errors import ExitCode, Refused, UsageError
from hutong.registry.formats.shape import MESSAGES_MAX, NamedText, ParsedSchema, SchemaFormat
from hutong.registry.values import Compatibility, SchemaText, invalid_schema

SCHEMA_TYPES: Final = ("JSON", "PROTOBUF", "AVRO")
SCHEMA_CHARACTERS_MAX: Final = 1024 * 1024
PARSED_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class ResolvedText:
    """A schema with the schemas that it imports, those first that others need."""

    text: SchemaText
    imports: tuple[NamedText, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Earlier versions to compare with, the newest last, and the level."""

    level: Compatibility
    versions: Sequence[tuple[int, ResolvedText]]


def _avro() -> SchemaFormat:
    from hutong.registry.formats.avro import AvroFormat

    return AvroFormat()


def _json() -> SchemaFormat:
    from hutong.registry.formats.json_schema import JsonFormat

    return JsonFormat()


def _protobuf() -> SchemaFormat:
    from hutong.registry.formats.protobuf import ProtobufFormat

    return ProtobufFormat()


_FORMATS: Final[dict[str, Callable[[], SchemaFormat]]] = {"AVRO": _avro, "JSON": _json, "PROTOBUF": _protobuf}


class SchemaChecks:
    """Parses and compares. May be used by several threads."""

    def __init__(self) -> None:
        self._parsed: OrderedDict[ResolvedText, ParsedSchema] = OrderedDict()
        self._lock = Lock()

    def canonical(self, schema: ResolvedText, *, normalize: bool = False) -> SchemaText:
        """The same schema with the text that is kept. Raises Refused(INVALID_SCHEMA)."""
        parsed = self.parsed(schema)
        try:
            return replace(schema.text, schema=parsed.normalized() if normalize else parsed.canonical)
        except RecursionError:
            raise invalid_schema("it is nested too deep") from None

    def serialized(self, schema: ResolvedText) -> SchemaText:
        """The same schema of Protobuf as its descriptor in base64. Raises Refused."""
        from hutong.registry.formats.protobuf import ProtobufSchema

        parsed = self.parsed(schema)
        assert isinstance(parsed, ProtobufSchema)
        return replace(schema.text, schema=parsed.serialized())

    def troubles(self, schema: ResolvedText, comparison: Comparison) -> list[str]:
        """The reasons for which the level forbids this schema; none where it is compatible. Raises Refused."""
        level = comparison.level
        if level is Compatibility.NONE or not comparison.versions:
            return []
        new = self.parsed(schema)
        found: list[str] = []
        for number, earlier in reversed(comparison.versions if level.is_transitive else comparison.versions[-1:]):
            found += [f"version {number}: {each}" for each in self._against(schema, new, earlier, level)]
        return found[:MESSAGES_MAX]

    def _against(
        self, schema: ResolvedText, new: ParsedSchema, earlier: ResolvedText, level: Compatibility
    ) -> list[str]:
        if earlier.text.schema_type != schema.text.schema_type:
            return [f"it is of type {earlier.text.schema_type}, the new schema of type {schema.text.schema_type}"]
        try:
            old = self.parsed(earlier)
        # It was kept by another registry, with rules of its own.
        except Refused as refused:
            return [f"it cannot be compared with: {refused.message}"]
        found = []
        try:
            if level.is_backward:
                found += [f"the new schema cannot read its data: {each}" for each in new.troubles_reading(old)]
            if level.is_forward:
                found += [f"it cannot read data of the new schema: {each}" for each in old.troubles_reading(new)]
        except RecursionError:
            raise invalid_schema("its types refer to each other too often to be compared") from None
        return found

    def parsed(self, schema: ResolvedText) -> ParsedSchema:
        """The schema as its format understands it. Raises Refused."""
        with self._lock:
            known = self._parsed.get(schema)
            if known is not None:
                self._parsed.move_to_end(schema)
                return known
        if len(schema.text.schema) > SCHEMA_CHARACTERS_MAX:
            raise invalid_schema(f"it has more than {SCHEMA_CHARACTERS_MAX} characters")
        try:
            parsed = _format(schema.text.schema_type).parse(schema.text.schema, schema.imports)
        except RecursionError:
            raise invalid_schema("it is nested too deep") from None
        with self._lock:
            self._parsed[schema] = parsed
            if len(self._parsed) > PARSED_MAX:
                self._parsed.popitem(last=False)
        return parsed


def _format(schema_type: str) -> SchemaFormat:
    make = _FORMATS.get(schema_type)
    if make is None:
        raise invalid_schema(f"its type is none of {', '.join(SCHEMA_TYPES)}")
    try:
        return make()
    except ModuleNotFoundError as error:
        raise UsageError(
            f"A schema registry needs {error.name}: pip install 'hutong[registry]'.", ExitCode.UNAVAILABLE
        ) from None


def check_installed() -> None:
    """Import all formats. Raises UsageError where a library is missing."""
    for schema_type in _FORMATS:
        _format(schema_type)
