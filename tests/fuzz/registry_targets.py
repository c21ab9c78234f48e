"""Schemas of each format, as strangers register them; and records of `_schemas`, as strangers write them."""

import json
from collections.abc import Iterator

import msgspec
from tests.fuzz.target import KIBIBYTE, MEBIBYTE, Target

from hutong.foundation.errors import ProtocolError, Refused
from hutong.registry.changes import (
    ChangeAnswer,
    DeleteSubject,
    DeleteVersion,
    RegisterSchema,
    SetLevel,
    SetMode,
    decode_change,
    decode_outcome,
    encode_change,
    encode_outcome,
)
from hutong.registry.checks import Comparison, ResolvedText, SchemaChecks
from hutong.registry.formats.writing.steps import WriteSteps
from hutong.registry.machine import RegistryMachine
from hutong.registry.reading import WrittenBySchema
from hutong.registry.records import config_record, decode_record, delete_subject_record, schema_record
from hutong.registry.values import (
    Compatibility,
    NotRecorded,
    SchemaReference,
    SchemaText,
    SchemaVersion,
    UnknownOutcome,
)

FORMATS = ("AVRO", "JSON", "PROTOBUF")


def check_schema(data: bytes) -> object:
    """The first byte names the format. The text is compared with what is kept of it."""
    text = data[1:].decode(errors="replace")
    given = ResolvedText(SchemaText(FORMATS[data[0] % 3 if data else 0], text))
    checks = SchemaChecks()
    kept = ResolvedText(checks.canonical(given))
    assert checks.canonical(kept) == kept.text, "what is kept is kept as it is"
    checks.canonical(given, normalize=True)
    return checks.troubles(kept, Comparison(Compatibility.FULL_TRANSITIVE, [(1, given), (2, kept)]))


def schemas() -> Iterator[bytes]:
    record = {"type": "record", "name": "a.R", "fields": [{"name": "x", "type": ["null", "R"], "default": None}]}
    enum = {"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "A"}
    items = {"type": "array", "items": {"type": "map", "values": {"type": "fixed", "name": "F", "size": 3}}}
    for schema in (record, enum, items, ["int", "string"], {"type": "bytes", "logicalType": "decimal", "precision": 4}):
        yield b"\x00" + json.dumps(schema).encode()
    tree = {"definitions": {"t": {"properties": {"n": {"$ref": "#/definitions/t"}}}}, "$ref": "#/definitions/t"}
    bounds = {"type": ["integer", "null"], "maximum": 5, "enum": [1, 2], "multipleOf": 2}
    parts = {"oneOf": [{"type": "object", "required": ["a"], "additionalProperties": False}, {"items": [{}, True]}]}
    for document in (tree, bounds, parts, {"allOf": [parts, bounds], "pattern": "(a+)+"}):
        yield b"\x01" + json.dumps(document).encode()
    message = b"message M { map<string, N> m = 1; oneof o { int32 x = 2; N y = 3; } } message N {}"
    yield b'\x02syntax = "proto3"; package a.b; ' + message
    yield b'\x02message M { required string s = 1 [default = "x\\n"]; extensions 5 to max; reserved "a"; }'
    yield b"\x02enum E { A = 0x1; } service S { rpc M (.a.N) returns (stream N) { option (x) = { y: 1 }; } }"
    yield b"\x02Cgd4LnByb3RvIgwKAU0SBwoBYRgBIAE="


def apply_records(data: bytes) -> object:
    """Lines are records: a key, a tab and a value, or a key alone."""
    machine = RegistryMachine()
    for line in data.split(b"\n"):
        key, tab, value = line.partition(b"\t")
        try:
            change = decode_record(key, value if tab else None)
        except ProtocolError:
            continue
        if change is not None:
            machine.apply(change)
            machine.check_invariants()
    return machine.subjects(with_deleted=True)


def records() -> Iterator[bytes]:
    text = SchemaText("AVRO", '"int"')
    made = [
        schema_record(SchemaVersion("s", 1, 1, text)),
        schema_record(SchemaVersion(":.c:s", 2, 7, SchemaText("JSON", "{}"))),
        config_record("s", "FULL"),
        delete_subject_record("s", 1),
        schema_record(SchemaVersion("s", 1, 1, text, is_deleted=True)),
    ]
    yield b"\n".join(b"\t".join(filter(None, each)) for each in made)
    yield made[0][0]


def decode_forwarded(data: bytes) -> object:
    """A change that a node hands over, or an answer: the first byte says which."""
    return decode_change(data[1:]) if data[:1] == b"c" else decode_outcome(data[1:])


def forwarded() -> Iterator[bytes]:
    for change in (
        RegisterSchema("s", SchemaText("AVRO", '"int"', (SchemaReference("n", "t", 1),)), id=3),
        DeleteSubject("s", is_permanent=True),
        DeleteVersion("s", None, is_permanent=False),
        SetLevel(None, Compatibility.FULL),
        SetMode("s", None),
    ):
        yield b"c" + encode_change(change)
    for outcome in (ChangeAnswer(1, 2, (3,), "FULL"), Refused(409, "no"), NotRecorded("no"), UnknownOutcome("perhaps")):
        yield b"o" + encode_outcome(outcome)


def _written() -> Iterator[WrittenBySchema]:
    tree = {"name": "r", "type": ["null", "R", "string"]}
    marks = {"name": "b", "type": {"type": "array", "items": {"type": "fixed", "name": "F", "size": 2}}}
    numbers = {"name": "n", "type": {"type": "map", "values": "double"}}
    record = {"type": "record", "name": "R", "fields": [tree, numbers, marks]}
    document = {
        "uniqueItems": True,
        "items": {"$ref": "#"},
        "oneOf": [{"minimum": 1}, {"const": [1]}, {"required": ["a"]}],
        "properties": {"a": {"multipleOf": 0.1}},
        "not": {"contains": {"enum": [3]}},
    }
    file = """syntax = "proto3"; import "google/protobuf/any.proto"; import "google/protobuf/struct.proto";
        message M { M m = 1; map<int32, M> n = 2; bytes b = 3; google.protobuf.Any a = 4; google.protobuf.Value v = 5;
        repeated double d = 6; }"""
    for kind, text in zip(FORMATS, (json.dumps(record), json.dumps(document), file), strict=True):
        yield WrittenBySchema(ResolvedText(SchemaText(kind, text)), SchemaChecks())


WRITTEN = [*_written()]


def write_value(data: bytes) -> object:
    """The first byte names the schema, JSON follows."""
    try:
        value = msgspec.json.decode(data[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    schema = WRITTEN[data[0] % 3 if data else 0]
    written = schema.write(value, WriteSteps(100_000))
    return schema.read(written), schema.read_json(written)


def values() -> Iterator[bytes]:
    yield b"\x00" + json.dumps({"r": {"R": {"r": None, "n": {"a": "NaN"}, "b": []}}, "n": {}, "b": ["ab"]}).encode()
    yield b"\x01" + json.dumps([{"a": 0.3}, [1], 5, [[1], {"a": 1}]]).encode()
    any_value = {"@type": "type.googleapis.com/M", "m": {}}
    yield b"\x02" + json.dumps({"m": {"n": {"1": {"b": "eA=="}}}, "a": any_value, "v": [1, {}], "d": [1]}).encode()


TARGETS = [
    Target(
        "schema", check_schema, schemas, (Refused,), memory_base=16 * MEBIBYTE, memory_factor=16 * KIBIBYTE, slowness=4
    ),
    Target("schema-values", write_value, values, memory_factor=4 * KIBIBYTE),
    Target("schema-records", apply_records, records, ()),
    Target("schema-forwarded", decode_forwarded, forwarded, (ProtocolError, Refused)),
]
