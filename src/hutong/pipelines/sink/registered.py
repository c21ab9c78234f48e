"""Columns that are written with the id of a registered schema before them, as Confluent's serializers do.

The driver registers, or looks up, the schema of each such column when the writer is made: what the registry refuses
ends the query before a task runs. Workers get the id and the plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from hutong.foundation.errors import Refused, UsageError
from hutong.pipelines.errors import BadRecord
from hutong.pipelines.option_values import parsed
from hutong.pipelines.schemas.column_schemas import avro_of
from hutong.pipelines.schemas.json_schemas import json_schema_of
from hutong.pipelines.schemas.json_types import JsonType, parse_json_schema
from hutong.pipelines.schemas.proto_texts import proto_of
from hutong.pipelines.schemas.registry import (
    AVRO,
    JSON,
    NAMES,
    PROTOBUF,
    RemoteRegistry,
    is_missing,
    shared_registry,
)
from hutong.pipelines.schemas.settings import AUTO_REGISTER, URL, registers, registry_of
from hutong.pipelines.sink.encode.avro_fields import Write, avro_fields
from hutong.pipelines.sink.encode.json_fields import json_fields
from hutong.pipelines.sink.encode.proto_fields import proto_fields
from hutong.pipelines.source.rows.avro_schema import Plan, parse_avro
from hutong.pipelines.source.rows.kinds import Kind
from hutong.pipelines.source.rows.protobuf.descriptors import parse_files
from hutong.pipelines.source.rows.protobuf.plan import ProtoMessage, plan_of
from hutong.pipelines.source.rows.protobuf.registered import place_bytes

if TYPE_CHECKING:
    import pyarrow

PARTS = ("key", "value")
REGISTERED = {"avro": AVRO, "json": JSON, "protobuf": PROTOBUF}
"""Formats with schemas, and the registry's words for them."""
FORMATS = ("binary", *REGISTERED)
MAGIC = b"\0"
Written: TypeAlias = Plan | JsonType | ProtoMessage


@dataclass(frozen=True, slots=True)
class FramedColumn:
    """A column of type `kind`, written by `plan`, which is the schema `schema_id` of type `type`."""

    name: str
    schema_id: int
    plan: Written
    kind: Kind
    type: str = AVRO


def formats_of(options: Mapping[str, str]) -> dict[str, str]:
    """The format of each part. Raises UsageError."""
    formats = {part: options.get(f"{part}Format", FORMATS[0]).strip().lower() for part in PARTS}
    for part, name in formats.items():
        if name not in FORMATS:
            raise UsageError(f"option {part}Format is '{name}': a sink takes one of {', '.join(FORMATS)}")
        if is_framed(name) and URL not in options:
            raise UsageError(f"option {URL} must be given with {part}Format {name}: values begin with a schema's id")
    return formats


def is_framed(format_name: str) -> bool:
    """Return True for a format whose values begin with a schema's id."""
    return format_name in REGISTERED


def framed_columns(
    options: Mapping[str, str], kinds: Mapping[str, Kind], registry: RemoteRegistry | None = None
) -> tuple[FramedColumn, ...]:
    """The columns to be framed; `kinds` are the types of all. Raises UsageError, or what the registry refuses."""
    settings = registry_of(options)
    wanted = {part: name for part, name in formats_of(options).items() if is_framed(name) and part in kinds}
    if settings is None or not wanted:
        return ()
    registry = registry or shared_registry(settings)
    return tuple(_framed(options, part, REGISTERED[name], kinds[part], registry) for part, name in wanted.items())


def framed(batch: "pyarrow.RecordBatch", columns: tuple[FramedColumn, ...]) -> "pyarrow.RecordBatch":
    """The batch with those columns as bytes. Raises BadRecord for a value that its schema does not take."""
    for column in columns:
        place = batch.schema.get_field_index(column.name)
        batch = batch.set_column(place, column.name, _encoded(batch.column(place), column))
    return batch


def _framed(options: Mapping[str, str], part: str, type_: str, kind: Kind, registry: RemoteRegistry) -> FramedColumn:
    schema = f"{part}Schema"
    try:
        text = options.get(schema) or _MADE[type_](kind)
    except ValueError as error:
        raise UsageError(f"column {part} has no {NAMES[type_]} schema: {error}; rename it, or set {schema}") from error
    if type_ == PROTOBUF:
        # Its text is understood by the registry, which hands out descriptors.
        schema_id = _id_of(options, part, text, type_, registry)
        name = options.get(f"{part}Message", "").strip()
        message = parsed(schema, text, lambda _: plan_of(parse_files(registry.protobuf_files(schema_id)), name, DEPTH))
        _check(message, kind, part)
        return FramedColumn(part, schema_id, message, kind, type_)
    plan: Written = parsed(schema, text, parse_avro if type_ == AVRO else parse_json_schema)
    _check(plan, kind, part)
    return FramedColumn(part, _id_of(options, part, text, type_, registry), plan, kind, type_)


def _check(plan: Written, kind: Kind, part: str) -> None:
    """Raises UsageError for a column that the plan does not take."""
    try:
        _writing(plan, kind)
    except ValueError as error:
        raise UsageError(f"column {part} cannot be written by {part}Schema: {error}") from error


DEPTH = 3
"""Levels to which a message that contains itself is unfolded; a column cannot be written deeper."""
_MADE = {AVRO: avro_of, JSON: json_schema_of, PROTOBUF: proto_of}


def _writing(plan: Written, kind: Kind) -> Write:
    """A function that appends a value of the column. Raises ValueError where the column does not fit."""
    if isinstance(plan, ProtoMessage):
        return proto_fields(plan, kind)
    if isinstance(plan, JsonType):
        return json_fields(plan, kind)
    return avro_fields(plan, kind)


def _id_of(options: Mapping[str, str], part: str, text: str, type_: str, registry: RemoteRegistry) -> int:
    subject = options.get(f"{part}Subject") or _subject(options, part)
    if registers(options):
        return registry.register(subject, text, type_)
    try:
        return registry.find(subject, text, type_)
    except Refused as error:
        if not is_missing(error):
            raise
        raise UsageError(
            f"the schema of column {part} is none of subject {subject}: register it, set {part}Schema to one that is "
            f"there, or set {AUTO_REGISTER} to true ({text})"
        ) from error


def _subject(options: Mapping[str, str], part: str) -> str:
    """Confluent's TopicNameStrategy."""
    if "topic" not in options:
        raise UsageError(f"option {part}Subject must be given where topics come from a column")
    return f"{options['topic']}-{part}"


def _encoded(array: "pyarrow.Array", column: FramedColumn) -> "pyarrow.Array":
    import pyarrow as pa

    write, head = _writing(column.plan, column.kind), MAGIC + column.schema_id.to_bytes(4, "big")
    if isinstance(column.plan, ProtoMessage):
        head += place_bytes(column.plan.place)
    rows: list[bytes | None] = []
    for value in array.to_pylist():
        # A null is a tombstone, which has no schema.
        if value is None:
            rows.append(None)
            continue
        out = bytearray(head)
        try:
            write(value, out)
        except ValueError as error:
            raise BadRecord(
                f"a {column.name} cannot be written as {NAMES[column.type]} of schema {column.schema_id}: {error}"
            ) from None
        rows.append(bytes(out))
    return pa.array(rows, pa.binary())
