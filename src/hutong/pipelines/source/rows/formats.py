"""Formats of keys and values: the options `keyFormat`, `keySchema`, `keyFraming`, and the same for values.

Formats are binary (unchanged), string (UTF-8, checked), json (with a schema in Spark SQL's words), avro (with an Avro
schema) and protobuf (with a set of descriptors, and `valueMessage` for one of its messages). Framing `confluent`
removes the five bytes by which Confluent's serializers name a schema in their registry; the given schema applies to all
records. With `schema.registry.url` all are framed, and Avro is read by the schema that each record names; the schema of
the column is the given one, or the latest of the topic (`in_registry`). JSON and Protobuf are read by the column's
types alone: the version that a record names does not count. Knows nothing of Spark or Arrow.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hutong.foundation.errors import UsageError
from hutong.pipelines.option_values import count, parsed
from hutong.pipelines.schemas.settings import RegistrySettings, registry_of
from hutong.pipelines.source.rows.avro_schema import RECURSION_MAX, Plan, kind_of, parse_avro
from hutong.pipelines.source.rows.ddl import parse_ddl
from hutong.pipelines.source.rows.kinds import BINARY, STRING, Kind, Scalar, ddl
from hutong.pipelines.source.rows.protobuf.descriptors import parse_set
from hutong.pipelines.source.rows.protobuf.plan import ProtoMessage, kind_of_proto, plan_of

PARTS = ("key", "value")
FORMATS = ("binary", "string", "json", "avro", "protobuf")
WITH_SCHEMAS = {
    "json": "'user STRING, bytes BIGINT'",
    "avro": 'an Avro schema, {"type": "record", ...}',
    "protobuf": "what protoc --descriptor_set_out --include_imports writes, in base64",
}
"""Formats that need a schema, and what that is."""
FRAMINGS = ("none", "confluent")
FAIL, NULL, SKIP, KEEP = "fail", "null", "skip", "keep"
POLICIES = (FAIL, NULL, SKIP, KEEP)
MODE = "mode"
MODES = {"failfast": FAIL, "permissive": NULL, "dropmalformed": SKIP}
"""Spark's names of what happens to malformed records."""
RECURSION = "recursiveFieldMaxDepth"
"""Spark's `from_avro` has it under this name."""
UNDECODABLE_COLUMN = "undecodable"
UNDECODABLE_TYPE = "STRUCT<part: STRING, reason: STRING, content: BINARY>"

BYTES = Scalar(BINARY)


@dataclass(frozen=True, slots=True)
class Format:
    """The conversion of a key's or value's bytes to a column of type `kind`; `plan` is for Avro and Protobuf."""

    name: str = "binary"
    kind: Kind = BYTES
    plan: Plan | ProtoMessage | None = None
    is_framed: bool = False
    registry: RegistrySettings | None = None
    recursion_max: int | None = None


AS_IT_CAME = Format()


@dataclass(frozen=True, slots=True)
class RowFormat:
    """The conversion of records to rows. `undecodable` determines the result of an undecodable key or value.

    `fail`; `null`: the key or value is null; `skip`: no row; `keep`: null, with a column that marks it.
    """

    key: Format = AS_IT_CAME
    value: Format = AS_IT_CAME
    undecodable: str = FAIL

    @property
    def is_plain(self) -> bool:
        """Return True if there is nothing to decode: the bytes are the columns."""
        return self.key == self.value == AS_IT_CAME and self.undecodable != KEEP


def row_format(options: Mapping[str, str]) -> RowFormat:
    """Raises UsageError."""
    policy = _policy(options)
    row = RowFormat(_format(options, "key"), _format(options, "value"), policy)
    if RECURSION in options and row.key.plan is row.value.plan is None:
        raise UsageError(
            f"option {RECURSION} is for Avro and Protobuf: set keyFormat or valueFormat to one of them, or leave it out"
        )
    return row


def _policy(options: Mapping[str, str]) -> str:
    """Under our name, or under Spark's for JSON and Avro."""
    if MODE not in options:
        return _one_of(options, "onUndecodable", POLICIES)
    if "onUndecodable" in options:
        raise UsageError(f"options {MODE} and onUndecodable mean the same: take one of them")
    return MODES[_one_of(options, MODE, tuple(MODES))]


def column_type(row: RowFormat, name: str) -> str | None:
    """The type in Spark SQL's words of a column that a format decides on; None for others."""
    match name:
        case "key":
            return ddl(row.key.kind)
        case "value":
            return ddl(row.value.kind)
        case _:
            return UNDECODABLE_TYPE if name == UNDECODABLE_COLUMN else None


def _format(options: Mapping[str, str], part: str) -> Format:
    name = _one_of(options, f"{part}Format", FORMATS)
    framing, schema = f"{part}Framing", f"{part}Schema"
    needs_schema = name in WITH_SCHEMAS
    registry = registry_of(options) if needs_schema else None
    is_framed = _one_of(options, framing, FRAMINGS) == "confluent" or registry is not None
    if needs_schema and not options.get(schema, "").strip():
        raise UsageError(f"option {schema} must be given with {part}Format {name}: {WITH_SCHEMAS[name]}")
    listed = ", ".join(WITH_SCHEMAS)
    if not needs_schema and schema in options:
        raise UsageError(f"option {schema} is given, but {part}Format is {name}: take one of {listed}, or leave it out")
    if is_framed and not needs_schema:
        raise UsageError(f"option {framing} is confluent, but {part}Format is {name}: take one of {listed}")
    if f"{part}Message" in options and name != "protobuf":
        raise UsageError(f"option {part}Message is given, but {part}Format is {name}: take protobuf, or leave it out")
    if name == "json":
        return Format(name, parsed(schema, options[schema], parse_ddl), None, is_framed)
    if name == "avro":
        recursion_max = _recursion_max(options)
        plan = parsed(schema, options[schema], lambda text: parse_avro(text, recursion_max))
        kind = kind_of(plan)
        if kind is None:
            raise UsageError(f"option {schema} is null alone: give the schema of a record")
        return Format(name, kind, plan, is_framed, registry, recursion_max)
    if name == "protobuf":
        message = _message(options, part)
        return Format(name, kind_of_proto(message), message, is_framed, registry)
    return Format(name, Scalar(STRING if name == "string" else BINARY))


def _message(options: Mapping[str, str], part: str) -> ProtoMessage:
    """The plan of the message that the options name. Raises UsageError."""
    recursion_max, name = _recursion_max(options), options.get(f"{part}Message", "").strip()
    return parsed(f"{part}Schema", options[f"{part}Schema"], lambda text: plan_of(parse_set(text), name, recursion_max))


def _recursion_max(options: Mapping[str, str]) -> int | None:
    """Raises UsageError."""
    recursion_max = count(options, RECURSION)
    if recursion_max is not None and recursion_max > RECURSION_MAX:
        raise UsageError(
            f"option {RECURSION} is '{recursion_max}': it must be a whole number from 1 to {RECURSION_MAX}"
        )
    return recursion_max


def _one_of(options: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """The first is the default."""
    text = options.get(name, allowed[0]).strip().lower()
    if text not in allowed:
        raise UsageError(f"option {name} is '{text}': take one of {', '.join(allowed)}")
    return text
