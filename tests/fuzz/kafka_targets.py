"""Targets for what Kafka clients send: requests of every API and version, record batches, codecs, members' metadata."""

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Final

from crc32c import crc32c
from tests.fuzz.target import MEBIBYTE, Target
from tests.unit.wire.messages import fill

from hutong.foundation.errors import LimitExceeded, ProtocolError, Refused
from hutong.wire.kafka import transaction_log, version_prefixed
from hutong.wire.kafka.batch.compression import Compression, compress, decompress
from hutong.wire.kafka.batch.control_records import build_marker, parse_marker
from hutong.wire.kafka.batch.record_contents import examine_batch
from hutong.wire.kafka.batch.record_slices import iterate_slices, unpack_records
from hutong.wire.kafka.batch.records import (
    CRC_START,
    HEADER_BYTES,
    Record,
    build_batch,
    iterate_batches,
    iterate_records,
    parse_batch_header,
    validate_batch_set,
)
from hutong.wire.kafka.codec.codecs import decode_request, decode_response, encode_response
from hutong.wire.kafka.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode,
)
from hutong.wire.kafka.headers import decode_request_header, decode_response_header, encode_request_frame
from hutong.wire.kafka.registry import APIS

UNPACKED_MAX: Final = MEBIBYTE
BYTE_MAX: Final = 255  # one byte of a seed says which API an answer is of


def decode_frame(data: bytes) -> object:
    """As dispatch does it."""
    header, offset = decode_request_header(data)
    return decode_request(header.api_key, header.api_version, data, offset)


def request_frames() -> Iterator[bytes]:
    random = Random(8)
    for api in APIS.values():
        for version in api.versions:
            frames = [
                b"".join(encode_request_frame(fill(api.request, version, random), version, 7, "fuzz"))[4:]
                for _ in range(3)
            ]
            yield min(frames, key=len)


def decode_answer(data: bytes) -> object:
    """A response, as clients of ours read them: two bytes say which."""
    key, version, frame = data[0], data[1], data[2:]
    _, offset = decode_response_header(frame, key, version)
    return decode_response(key, version, frame, offset)


def decode_answer_checked(data: bytes) -> object:
    if len(data) < 2 or data[0] not in APIS or data[1] not in APIS[data[0]].versions:
        return None
    return decode_answer(data)


def response_frames() -> Iterator[bytes]:
    random = Random(9)
    for api in APIS.values():
        for version in api.versions:
            tags = b"\0" if api.is_flexible(version) and api.key != 18 else b""
            bodies = [b"".join(encode_response(fill(api.response, version, random), version)) for _ in range(3)]
            if api.key > BYTE_MAX:
                continue
            yield bytes([api.key, version]) + b"\0\0\0\7" + tags + min(bodies, key=len)


def read_batch(data: bytes) -> object:
    """Hand a batch to the broker, the cleaner and our readers."""
    view = memoryview(data)
    validate_batch_set(view)
    seen: list[object] = []
    for header, batch in iterate_batches(view):
        unpacked = unpack_records(header, batch, UNPACKED_MAX)
        seen.append(examine_batch(header, batch, UNPACKED_MAX))
        seen.append(list(iterate_slices(unpacked, header.record_count, header.last_offset_delta)))
        seen.append(list(iterate_records(batch, UNPACKED_MAX)))
    return seen


def read_run(data: bytes) -> object:
    """A run of batches that nobody validated, as a file has it."""
    return [
        (header, list(iterate_records(batch, UNPACKED_MAX)), parse_marker(batch))
        for header, batch in iterate_batches(memoryview(data))
    ]


def batches() -> Iterator[bytes]:
    records = [
        Record(0, 1_000, b"k", b"value", [("h", b"x"), ("n", None)]),
        Record(1, 1_001, None, b"v" * 40),
        Record(2, 999, b"", None),
    ]
    for compression in Compression:
        yield build_batch(records, compression=compression)
    yield build_batch(records[:1], producer_id=4, producer_epoch=1, base_sequence=0)
    yield build_marker(4, 1, is_commit=True, coordinator_epoch=2, timestamp_ms=5)


def reseal_batch(data: bytes) -> bytes:
    """Length and CRC as they should be for what is there."""
    if len(data) < HEADER_BYTES:
        return data
    fixed = bytearray(data)
    fixed[8:12] = (len(data) - 12).to_bytes(4, "big")
    fixed[17:21] = crc32c(memoryview(fixed)[CRC_START:]).to_bytes(4, "big")
    return bytes(fixed)


def unpack(data: bytes) -> object:
    """One byte says by which codec."""
    return decompress(Compression(data[0] % 5), memoryview(data)[1:], UNPACKED_MAX) if data else None


def packed() -> Iterator[bytes]:
    for compression in Compression:
        for data in (b"", b"a", b"abc" * 400):
            yield bytes([compression]) + compress(compression, data)
    yield b"\1" + compress(Compression.GZIP, b"a") * 3
    yield b"\1" + compress(Compression.GZIP, b"\0" * (2 * MEBIBYTE))
    yield b"\4" + compress(Compression.ZSTD, b"\0" * (2 * MEBIBYTE))


def read_marker(data: bytes) -> object:
    parse_batch_header(data)
    return parse_marker(data)


def member_metadata() -> Iterator[bytes]:
    owned = [TopicPartition("orders", [0, 1]), TopicPartition("x", [])]
    for version in range(4):
        yield encode(ConsumerProtocolSubscription(["orders", "x"], b"user", owned, 3, "rack"), version)
        yield encode(ConsumerProtocolAssignment(owned, b"user"), version)
    yield b""


def transaction_records() -> Iterator[bytes]:
    yield version_prefixed.encode(transaction_log.TransactionLogKey("orders-1"), 0)
    partitions = [transaction_log.PartitionsSchema("orders", [0, 1])]
    for version in (0, 1):
        value = transaction_log.TransactionLogValue(
            producer_id=7,
            producer_epoch=1,
            transaction_timeout_ms=60_000,
            transaction_status=1,
            transaction_partitions=partitions,
            transaction_last_update_timestamp_ms=5,
            transaction_start_timestamp_ms=4,
        )
        yield version_prefixed.encode(value, version)


def read_both_ways(*decoders: object) -> object:
    """Bytes that more than one decoder may be given."""

    def read(data: bytes) -> object:
        for decode in decoders:
            try:
                decode(data)  # type: ignore[operator]
            except ProtocolError:
                continue
        return None

    return read


TARGETS = [
    Target("kafka-request", decode_frame, request_frames),
    Target("kafka-response", decode_answer_checked, response_frames),
    Target(
        "record-batch",
        read_batch,
        batches,
        (ProtocolError, Refused, LimitExceeded),
        reseal_batch,
        memory_base=24 * MEBIBYTE,
    ),
    Target(
        "record-run",
        read_run,
        lambda: [*batches(), b"".join(batches())],
        (ProtocolError, LimitExceeded),
        memory_base=24 * MEBIBYTE,
    ),
    Target("codec", unpack, packed, (ProtocolError, LimitExceeded), memory_base=8 * MEBIBYTE),
    Target("control-record", read_marker, batches, (ProtocolError,), reseal_batch, memory_base=24 * MEBIBYTE),
    Target("member-metadata", read_both_ways(decode_subscription, decode_assignment), member_metadata),  # type: ignore[arg-type]
    Target(
        "transaction-log",
        read_both_ways(  # type: ignore[arg-type]
            partial(version_prefixed.decode, transaction_log.TransactionLogKey),
            partial(version_prefixed.decode, transaction_log.TransactionLogValue),
        ),
        transaction_records,
    ),
]
