"""Keys and values as the console shows them, in every form; searches, pages of metrics, dead letters, redrives."""

import json
from collections.abc import Iterator

import msgspec
from tests.fuzz.target import KIBIBYTE, MEBIBYTE, Target

from hutong.bus.durable.records import StoredRecord
from hutong.console.dead_letters.conventions.known import letter_of
from hutong.console.dead_letters.redriving.progress import UnreadableProgress, decode_progress
from hutong.console.dead_letters.redriving.returned import returned_record
from hutong.console.nodes.families import KEPT
from hutong.console.nodes.history import History
from hutong.console.nodes.own_figures import own_figures
from hutong.console.nodes.samples import SampleReader
from hutong.console.overview.figures import busiest_topics, figures, latest_groups
from hutong.console.overview.findings import FoundProblems
from hutong.console.overview.rules import RULES
from hutong.console.records.decoding.decode import FORMS, PayloadDecoder
from hutong.console.records.searching.conditions import Conditions
from hutong.console.records.searching.json_path import parse_json_condition
from hutong.console.records.searching.refusals import WrongSearch
from hutong.registry.checks import ResolvedText, SchemaChecks
from hutong.registry.reading import WrittenBySchema
from hutong.registry.values import SchemaText

AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "n", "type": ["null", "R"]},
        {"name": "l", "type": {"type": "array", "items": ["null", "string", {"type": "map", "values": "bytes"}]}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
    ],
}
PROTO = "message M { map<string, M> m = 1; repeated bytes b = 2; oneof o { int32 x = 3; E e = 4; } enum E { A = 1; } }"
CHECKS = SchemaChecks()
SCHEMAS = {
    1: WrittenBySchema(ResolvedText(SchemaText("AVRO", json.dumps(AVRO))), CHECKS),
    2: WrittenBySchema(ResolvedText(SchemaText("PROTOBUF", PROTO)), CHECKS),
    3: WrittenBySchema(ResolvedText(SchemaText("JSON", "{}")), CHECKS),
}


def show(data: bytes) -> object:
    """The first byte names the form; the second bounds the text."""
    form = FORMS[data[0] % len(FORMS)] if data else FORMS[0]
    shown = PayloadDecoder(SCHEMAS.get).show(data[2:], form, 1 + 64 * (data[1] if len(data) > 1 else 1))
    return msgspec.json.encode(shown)


def values() -> Iterator[bytes]:
    document = {"a": [1, None, "é", {"b": 2.5}], "c": {}}
    yield b"\x00\x40" + json.dumps(document).encode()
    yield b"\x00\x40" + msgspec.msgpack.encode({**document, 1: b"\xff", "t": msgspec.Raw(b"\xd6\xff\0\0\0\1")})
    yield b"\x00\x40\x00\x00\x00\x00\x01\x02\x00\x00\x00\x04\x02\x02a\x04\x02\x02k\x02\xff\x00\x00\x00"
    yield b"\x00\x40\x00\x00\x00\x00\x02\x00\x0a\x07\x0a\x01k\x12\x02\x18\x05\x12\x01\xff\x20\x01"
    yield b"\x00\x40\x00\x00\x00\x00\x03[1]"
    yield b"\x05\x01\x00\x00\x00\x05"
    yield b"\x01\x01text \xff \xe2\x82"


def search(data: bytes) -> object:
    """A condition, a line, and the document that it is asked about."""
    condition, _, document = data.partition(b"\n")
    found = Conditions(paths=(("value", parse_json_condition(condition.decode(errors="replace"))),))
    return found.hold(StoredRecord("t", 0, 0, 0, None, document, (), len(document)))


def searches() -> Iterator[bytes]:
    for condition in ('$.a[0]["b c"] = "x"', "$.a.b ~ ^x+$", "$[1] >= 2.5", "$.a != null", "$"):
        yield condition.encode() + b'\n{"a":[{"b c":"x"}]}'


def sample(data: bytes) -> object:
    """Two pages, one after the other, with all that the overview and the nodes make of them."""
    reader, history, problems = SampleReader(KEPT), History(), FoundProblems(RULES)
    for number, page in enumerate(data.split(b"\0", 1)):
        history.add(reader.read(page.decode(errors="replace"), number * 2_000, 1_700_000_000_000 + number * 2_000))
        problems.observe(history)
    return msgspec.json.encode(
        (problems.found, figures(history), busiest_topics(history), latest_groups(history), own_figures(history))
    )


def samples() -> Iterator[bytes]:
    page = [
        'kafka_consumergroup_lag{consumergroup="g",topic="t",partition="0"} 5',
        'kafka_consumergroup_lag_seconds{consumergroup="g",topic="t",partition="0"} 400',
        'kafka_server_brokertopicmetrics_bytesin_total{topic="t"} 5',
        'hutong_produce_stage_seconds_bucket{group="days",stage="fsync",le="0.001"} 3',
        'hutong_produce_stage_seconds_bucket{group="days",stage="fsync",le="+Inf"} 5',
        'hutong_chunk_bytes_count{group="days"} 5',
        'hutong_request_seconds_bucket{request="Fetch",le="0.001"} 3',
        'kafka_network_requestmetrics_requests_total{request="Fetch"} 9',
        'kafka_network_requestmetrics_errors_total{request="Fetch",error="NONE"} 9',
        'hutong_node_info{version="1"} 1',
        "process_start_time_seconds 1.7e+09",
    ]
    yield ("\n".join(page) + "\0" + "\n".join(page).replace("} ", "} 1")).encode()
    yield b"hutong_volume_free_bytes 1\nhutong_volume_size_bytes 0\n\0process_max_fds 0\nprocess_open_fds 9"


def letter(data: bytes) -> object:
    """Headers, one a line as name=value, of a record in a topic of dead letters; and the record that goes back."""
    pairs = [line.partition(b"=") for line in data.split(b"\n")]
    headers = [(name.decode(errors="replace"), value) for name, _, value in pairs]
    record = StoredRecord("DLQ.g", 0, 0, 0, None, data, headers, len(data))
    found = letter_of(record)
    return found.reason, returned_record(record, found, "t")


def letters() -> Iterator[bytes]:
    yield b"hutong-dead-topic=orders\nhutong-dead-offset=17\nhutong-dead-error-message=no\nhutong-redriven-from=a/0/1"
    yield b"kafka_dlt-original-topic=orders\nkafka_dlt-original-partition=\0\0\0\2\nretry_topic-attempts=\0\0\0\4"
    yield b"__connect.errors.topic=orders\n__streams.errors.message=x\n__dlq.errors.delivery.count=5"
    yield b"RETRY_TOPIC=orders\nrocketmq=\1" + bytes(28) + b"\nreason=x\nsource-topic=orders"


def progress(data: bytes) -> object:
    """The metadata of a commit of a redrive."""
    found = decode_progress(len(data), data.decode(errors="replace"))
    found.check_invariants()
    assert decode_progress(found.offset, found.encode()).runs == found.runs
    return found.runs


def progresses() -> Iterator[bytes]:
    yield b"done:1+1,2+ff,1+10000"
    yield b""


TARGETS = [
    Target("console-samples", sample, samples, (), memory_factor=2 * KIBIBYTE),
    Target("console-values", show, values, (), memory_base=4 * MEBIBYTE, memory_factor=2 * KIBIBYTE),
    Target("console-letters", letter, letters, ()),
    Target("console-redrive-progress", progress, progresses, (UnreadableProgress,), memory_factor=2 * KIBIBYTE),
    Target("console-searches", search, searches, (WrongSearch,), memory_factor=2 * KIBIBYTE),
]
