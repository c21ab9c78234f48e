"""The wire codecs alone, next to kio and kafka-python: microseconds per call, the least of many interleaved rounds.

    python -m bench.codecs

On a machine that does other work too, only figures of the same run compare: the ratio columns.
"""

import io
import timeit
import warnings
from collections.abc import Callable
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from rich.console import Console
from rich.table import Table

from hutong.wire.buffer import Buffer
from hutong.wire.kafka.apis.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from hutong.wire.kafka.apis.k01_fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from hutong.wire.kafka.batch.records import Record, build_batch, iterate_records, parse_batch_header, validate_batch_set
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.headers import decode_request_header, encode_request_frame, encode_response_frame

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in a deprecated way
    from kafka.protocol import consumer, producer

PRODUCE, FETCH = 0, 1
PRODUCE_VERSION, FETCH_VERSION = 9, 12
ROUNDS = 40
ROUND_S = 0.004
VALUE_BYTES = 1024

Call = Callable[[], object]


def produce_request(topics: int, partitions: int) -> ProduceRequest:
    batch = memoryview(build_batch([Record(value=bytes(VALUE_BYTES))]))
    data = [PartitionProduceData(index, batch) for index in range(partitions)]
    return ProduceRequest(
        None, -1, 30_000, [TopicProduceData(f"topic-{n}", partition_data=data) for n in range(topics)]
    )


def produce_response(topics: int, partitions: int) -> ProduceResponse:
    data = [PartitionProduceResponse(index, 0, 1_000_000, -1, 0) for index in range(partitions)]
    return ProduceResponse(
        [TopicProduceResponse(f"topic-{number}", partition_responses=data) for number in range(topics)]
    )


def fetch_request(topics: int, partitions: int) -> FetchRequest:
    data = [FetchPartition(index, fetch_offset=1_000_000, partition_max_bytes=2**20) for index in range(partitions)]
    named = [FetchTopic(f"topic-{number}", partitions=data) for number in range(topics)]
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=named)


def fetch_response(topics: int, partitions: int) -> FetchResponse:
    batch: list[Buffer] = [memoryview(build_batch([Record(value=bytes(VALUE_BYTES))]))]
    data = [
        PartitionData(index, 0, 1_000_001, 1_000_001, 0, aborted_transactions=None, records=batch)
        for index in range(partitions)
    ]
    return FetchResponse(
        responses=[FetchableTopicResponse(f"topic-{number}", partitions=data) for number in range(topics)]
    )


def decoding(key: int, version: int, message: Any, theirs: Any) -> dict[str, Call]:
    body = b"".join(codecs.encode_request(message, version))
    ours = codecs.request_decoder(key, version)
    kio = entity_reader(load_request_schema(key, version))
    view = memoryview(body)
    return {
        "hutong": lambda: ours(body, 0),
        "kio": lambda: kio(view, 0),
        "kafka-python": lambda: theirs.decode(body, version=version),
    }


def encoding(key: int, version: int, message: Any, theirs: Any) -> dict[str, Call]:
    body = b"".join(codecs.encode_response(message, version))
    ours = codecs.response_encoder(key, version)
    schema = load_response_schema(key, version)
    kio_write, kio_message = entity_writer(schema), entity_reader(schema)(memoryview(body), 0)[0]
    their_message = theirs.decode(body, version=version)
    their_message._header = None
    return {
        "hutong": lambda: ours(message, []),
        "kio": lambda: kio_write(io.BytesIO(), kio_message),
        "kafka-python": lambda: their_message.encode(version=version),
    }


def whole_path() -> dict[str, dict[str, Call]]:
    """Headers around the bodies in a broker; the others have no equivalent."""
    frame = b"".join(encode_request_frame(produce_request(1, 1), PRODUCE_VERSION, 1, "rdkafka"))[4:]
    response = produce_response(1, 1)
    small = memoryview(build_batch([Record(value=bytes(100))]))
    many = build_batch([Record(value=bytes(100))] * 1000)

    def request() -> object:
        header, position = decode_request_header(frame)
        return codecs.request_decoder(header.api_key, header.api_version)(frame, position)

    return {
        "decode request header": {"hutong": lambda: decode_request_header(frame)},
        "decode header and Produce v9 1x1": {"hutong": request},
        "encode ProduceResponse v9 1x1 as a frame": {
            "hutong": lambda: encode_response_frame(PRODUCE, PRODUCE_VERSION, 1, response)
        },
        "parse a batch header": {"hutong": lambda: parse_batch_header(small)},
        "validate a batch of 100 bytes": {"hutong": lambda: validate_batch_set(small)},
        "iterate 1000 records of 100 bytes": {"hutong": lambda: sum(1 for _ in iterate_records(many))},
    }


def cases() -> dict[str, dict[str, Call]]:
    found: dict[str, dict[str, Call]] = {}
    for topics, partitions in ((1, 1), (10, 10)):
        shape = f"{topics}x{partitions}"
        found[f"decode Produce v9 {shape}"] = decoding(
            PRODUCE, PRODUCE_VERSION, produce_request(topics, partitions), producer.ProduceRequest
        )
        found[f"decode Fetch v12 {shape}"] = decoding(
            FETCH, FETCH_VERSION, fetch_request(topics, partitions), consumer.FetchRequest
        )
        found[f"encode ProduceResponse v9 {shape}"] = encoding(
            PRODUCE, PRODUCE_VERSION, produce_response(topics, partitions), producer.ProduceResponse
        )
        found[f"encode FetchResponse v12 {shape}"] = encoding(
            FETCH, FETCH_VERSION, fetch_response(topics, partitions), consumer.FetchResponse
        )
    return found | whole_path()


def least_us(calls: dict[str, Call]) -> dict[str, float]:
    """Microseconds of each call in its fastest round; the calls take turns, so that all meet the same machine."""
    timers = {name: timeit.Timer(call) for name, call in calls.items()}
    loops = {name: max(1, int(ROUND_S / timer.timeit(1))) for name, timer in timers.items()}
    rounds = [{name: timer.timeit(loops[name]) / loops[name] for name, timer in timers.items()} for _ in range(ROUNDS)]
    return {name: min(one[name] for one in rounds) * 1e6 for name in calls}


def main() -> None:
    table = Table("microseconds per call", "hutong", "kio", "kafka-python", "kio / hutong", "kafka-python / hutong")
    for title, calls in cases().items():
        figures = least_us(calls)
        ours = figures["hutong"]
        others = [figures.get("kio"), figures.get("kafka-python")]
        row = [f"{ours:.2f}", *("" if other is None else f"{other:.2f}" for other in others)]
        table.add_row(title, *row, *("" if other is None else f"{other / ours:.1f}" for other in others))
    Console().print(table)


if __name__ == "__main__":
    main()
