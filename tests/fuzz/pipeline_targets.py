"""What pipelines read of others: rows in Avro and JSON, users' TOML, records of the sink in groups' offsets."""

import base64
import json
from collections.abc import Iterator
from typing import Final

from tests.fuzz.target import MEBIBYTE, Target

from hutong.foundation.errors import ProtocolError
from hutong.pipelines.client.group_offsets import OffsetAndMetadata
from hutong.pipelines.client.identities import Identity, Producer
from hutong.pipelines.declared.declare.toml_text import parse_toml
from hutong.pipelines.declared.run.batches import ReadingBatches
from hutong.pipelines.declared.run.run_folder import document_of
from hutong.pipelines.schemas.json_types import kind_of_json, parse_json_schema
from hutong.pipelines.sink.commit.machine import BatchDecision, TaskTransaction
from hutong.pipelines.sink.commit.record import decision_of, note_count, notes
from hutong.pipelines.source.rows.avro import avro_reader
from hutong.pipelines.source.rows.avro_schema import kind_of, parse_avro
from hutong.pipelines.source.rows.ddl import parse_ddl
from hutong.pipelines.source.rows.json_rows import json_reader
from hutong.pipelines.source.rows.protobuf.descriptors import file_of_one, parse_files
from hutong.pipelines.source.rows.protobuf.plan import kind_of_proto, plan_of
from hutong.pipelines.source.rows.protobuf.reader import protobuf_reader

TREE: Final = """
{"type": "record", "name": "T", "fields": [
    {"name": "name", "type": "string"},
    {"name": "empty", "type": {"type": "array", "items": {"type": "record", "name": "E", "fields": []}}},
    {"name": "children", "type": {"type": "array", "items": {"type": "map", "values": "T"}}},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "other", "type": ["null", "int", "T", {"type": "fixed", "name": "F", "size": 0}]}]}
"""
LEAF: Final = b"\x02l\x00\x00\x02\x07\x00"
ROW: Final = "a DECIMAL(9,2), b MAP<STRING, ARRAY<BIGINT>>, c TIMESTAMP, d BINARY, e STRUCT<f: DOUBLE NOT NULL>"
read_avro: Final = avro_reader(parse_avro(TREE, 2))
read_json: Final = json_reader(parse_ddl(ROW))
QUERY: Final = "app-nightly:t:"


def trees() -> Iterator[bytes]:
    yield LEAF
    yield b"\x02r\x04\x00\x02\x02\x02k" + LEAF + b"\x00\x00\x02\x07\x04" + LEAF
    yield b"\x02r\x00\x00\x00\x02\x0e"


def rows() -> Iterator[bytes]:
    yield b'{"a": 1.5E+2, "b": {"k": [1, null]}, "c": "2020-01-01T00:00:00Z", "d": "AQI=", "e": {"f": 1}}'
    yield b'{"a": "-1E-7", "b": null, "z": [[{}]]}'


def read_schema(data: bytes) -> object:
    return kind_of(parse_avro(data.decode(), 3))


def schemas() -> Iterator[bytes]:
    yield json.dumps(json.loads(TREE)).encode()
    yield b'["null", {"type": "enum", "name": "a.E", "symbols": ["A"]}, {"type": "long", "logicalType": "date"}]'


PROTOBUF: Final = parse_files(
    [
        # message T { string a = 1; repeated T b = 2; map<int32, T> c = 3; fixed64 d = 4; }
        base64.b64decode(
            "CgdkZWZhdWx0ImwKAVQSCQoBYRgBIAEoCRINCgFiGAIgAygLMgIuVBIUCgFjGAMgAygLMgkuVC5DRW50cnkSCQoBZBgEIAEoBhos"
            "CgZDRW50cnkSCwoDa2V5GAEgASgFEhEKBXZhbHVlGAIgASgLMgIuVDoCOAFiBnByb3RvMw=="
        )
    ]
)
read_protobuf: Final = protobuf_reader(plan_of(PROTOBUF, recursion_max=3))


def messages() -> Iterator[bytes]:
    yield b"\x0a\x01x\x12\x05\x0a\x01y\x12\x00\x1a\x06\x08\x05\x12\x02\x12\x00\x21" + b"\x01" * 8
    yield b"\x12\x00" * 9 + b"\x2b\x08\x05\x2c"


def read_descriptors(data: bytes) -> object:
    return kind_of_proto(plan_of(parse_files([data]), recursion_max=2))


def descriptors() -> Iterator[bytes]:
    yield file_of_one("M")
    yield b"\x22\x12\x0a\x01M\x12\x0d\x0a\x01m\x18\x01 \x01(\x0b2\x02.M"


def read_json_schema(data: bytes) -> object:
    return kind_of_json(parse_json_schema(data.decode()))


def json_schemas() -> Iterator[bytes]:
    leaf = {"type": "object", "properties": {"x": {"type": ["integer", "null"]}}}
    yield json.dumps({"definitions": {"l": leaf}, "type": "array", "items": {"$ref": "#/definitions/l"}}).encode()
    yield json.dumps({"type": "object", "additionalProperties": {"oneOf": [{"type": "null"}, leaf]}}).encode()


def read_toml(data: bytes) -> object:
    return parse_toml(data.decode())


def documents() -> Iterator[bytes]:
    yield b'[pipeline]\nname = "a"\n[sources.a]\noptions = { a.b = 1 }\n[transform]\nsql = """\nSELECT a.b"""\n'
    yield b"a.'b'.\"c\" = [1.5, 'x'] # '\nd = '''\nx'''\n[[e.f]]\n"


def read_record(data: bytes) -> object:
    note = OffsetAndMetadata(7, data.decode(errors="replace"))
    note_count(note)
    return decision_of(QUERY, [note])


def records() -> Iterator[bytes]:
    one = TaskTransaction(3, Identity(f"hutong-{QUERY}-w-0", Producer(41, 2)), 25)
    for transactions in ((one,), ()):
        for note in notes(QUERY, BatchDecision(7, 9, transactions), "run"):
            yield note.committed.metadata.encode()


def read_progress(data: bytes) -> object:
    """A line of a progress file, in which the batch of a record is looked for."""
    found, document = ReadingBatches([("t", 0, 5)]), document_of(data)
    if document is not None:
        found.add(document)
    return json.dumps([batch.query for batch in found.found]).encode()


def progress_lines() -> Iterator[bytes]:
    source = {"startOffset": {"t": {"0": 5}}, "endOffset": {"t": {"0": 9}}, "numInputRows": 4}
    as_text = {"startOffset": None, "endOffset": '{"t": {"0": 9}}'}
    told = {"id": "1", "name": "out", "timestamp": "2026-01-01T00:00:00.000Z", "batchId": 7, "numInputRows": 4}
    yield json.dumps({**told, "durationMs": {"triggerExecution": 5}, "sources": [source, as_text]}).encode()


TARGETS = [
    Target("avro-row", read_avro, trees, (ValueError,)),
    Target("avro-schema", read_schema, schemas, (ValueError,), memory_base=16 * MEBIBYTE, memory_factor=2000),
    Target("protobuf-row", read_protobuf, messages, (ValueError,), memory_factor=2000),
    Target("protobuf-schema", read_descriptors, descriptors, (ValueError,), memory_base=16 * MEBIBYTE),
    Target("json-schema", read_json_schema, json_schemas, (ValueError,), memory_base=16 * MEBIBYTE, memory_factor=2000),
    Target("json-row", read_json, rows, (ValueError,)),
    Target("pipeline-progress", read_progress, progress_lines, memory_factor=200),
    Target("pipeline-toml", read_toml, documents, (ValueError,), memory_factor=2000),
    Target("sink-record", read_record, records, (ProtocolError,)),
]
