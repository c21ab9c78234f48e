"""Record batches: built, checked as a broker checks them, read back."""

import struct
from random import Random
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import LimitExceeded, ProtocolError, Refused
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.batch import records
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.batch.record_slices import rebuild_batch
from hutong.wire.kafka.batch.records import (
    Record,
    build_batch,
    iterate_batches,
    iterate_records,
    parse_batch_header,
    validate_batch_set,
)
from hutong.wire.kafka.error_codes import ErrorCode

NULLABLE = st.none() | st.binary(max_size=200)
RECORDS = st.lists(
    st.builds(
        Record,
        timestamp_ms=st.integers(0, 2**45),
        key=NULLABLE,
        value=NULLABLE,
        headers=st.lists(st.tuples(st.text(max_size=10), NULLABLE), max_size=3),
    ),
    min_size=1,
    max_size=12,
)
ONE = Record(timestamp_ms=1_700_000_000_000, key=b"key", value=b"value", headers=[("header", b"1"), ("none", None)])


def rewritten(batch: Buffer, position: int, code: str, number: int, fix_crc: bool = True) -> memoryview:
    """The batch with one header field changed; the CRC is made right again unless it is the point."""
    changed = bytearray(batch)
    struct.pack_into(">" + code, changed, position, number)
    if fix_crc:
        struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return memoryview(changed)


@given(written=RECORDS, compression=st.sampled_from(Compression), base_offset=st.integers(0, 2**60))
def test_what_is_built_is_read(written: list[Record], compression: Compression, base_offset: int) -> None:
    batch = build_batch(written, compression=compression, base_offset=base_offset)
    read = list(iterate_records(batch))
    for offset, record in enumerate(written, base_offset):
        record.offset = offset
    assert read == written


@given(written=RECORDS, compression=st.sampled_from(Compression))
def test_what_is_built_is_valid(written: list[Record], compression: Compression) -> None:
    batch = memoryview(build_batch(written, compression=compression, producer_id=5, producer_epoch=0, base_sequence=9))
    header = validate_batch_set(batch)
    assert header == parse_batch_header(b"skip" + batch, 4)
    assert (header.record_count, header.last_offset_delta) == (len(written), len(written) - 1)
    assert (header.size, header.compression) == (len(batch), compression)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 0, 9)
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in written)


def test_the_header_fields_stand_where_kafka_has_them() -> None:
    data = bytes(range(61))
    header = parse_batch_header(data)
    at = {"base_offset": (0, 8), "batch_length": (8, 4), "leader_epoch": (12, 4), "magic": (16, 1), "crc": (17, 4),
          "attributes": (21, 2), "last_offset_delta": (23, 4), "base_timestamp_ms": (27, 8),
          "max_timestamp_ms": (35, 8), "producer_id": (43, 8), "producer_epoch": (51, 2), "base_sequence": (53, 4),
          "record_count": (57, 4)}  # fmt: skip
    for name, (position, size) in at.items():
        assert getattr(header, name) == int.from_bytes(data[position : position + size], "big"), name


def test_flags() -> None:
    header = parse_batch_header(build_batch([ONE], attributes=records.TRANSACTIONAL | records.CONTROL, base_offset=40))
    assert (header.is_transactional, header.is_control, header.is_log_append_time) == (True, True, False)
    assert header.last_offset == 40
    stamped = parse_batch_header(build_batch([ONE], attributes=records.LOG_APPEND_TIME))
    assert (stamped.is_transactional, stamped.is_control, stamped.is_log_append_time) == (False, False, True)


@pytest.mark.parametrize("compression", Compression)
def test_a_batch_that_compaction_has_emptied_has_no_records(compression: Compression) -> None:
    full = build_batch([ONE], compression=compression)
    header = parse_batch_header(full)
    empty = rebuild_batch(
        header, b"", 0, attributes=header.attributes, base_timestamp_ms=0, max_timestamp_ms=header.max_timestamp_ms
    )
    assert list(iterate_records(full))
    assert list(iterate_records(empty)) == []


def test_log_append_time_overrides_the_timestamps_of_records() -> None:
    batch = build_batch([ONE, Record(timestamp_ms=ONE.timestamp_ms + 5)], attributes=records.LOG_APPEND_TIME)
    assert {record.timestamp_ms for record in iterate_records(batch)} == {ONE.timestamp_ms + 5}


def test_base_offset_and_leader_epoch_are_outside_the_crc() -> None:
    batch = bytearray(build_batch([ONE]))
    struct.pack_into(">qii", batch, 0, 1234, len(batch) - 12, 7)
    assert records.is_intact(memoryview(batch), parse_batch_header(batch))
    assert next(iterate_records(batch)).offset == 1234


BATCH = build_batch([ONE, ONE])
IDEMPOTENT = build_batch([ONE], producer_id=1, producer_epoch=0, base_sequence=0)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(None, ErrorCode.INVALID_RECORD, id="null"),
        pytest.param(memoryview(b""), ErrorCode.INVALID_RECORD, id="nothing"),
        pytest.param(memoryview(BATCH[:60]), ErrorCode.INVALID_RECORD, id="less than a header"),
        pytest.param(memoryview(BATCH[:-1]), ErrorCode.INVALID_RECORD, id="cut short"),
        pytest.param(memoryview(BATCH + BATCH), ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(memoryview(BATCH + b"\0"), ErrorCode.INVALID_RECORD, id="trailing byte"),
        pytest.param(rewritten(BATCH, 8, "i", -1), ErrorCode.INVALID_RECORD, id="negative length"),
        pytest.param(rewritten(BATCH, 16, "b", 1), ErrorCode.INVALID_RECORD, id="old magic"),
        pytest.param(rewritten(BATCH, 0, "q", 1), ErrorCode.INVALID_RECORD, id="base offset"),
        pytest.param(rewritten(BATCH, 23, "i", 0), ErrorCode.INVALID_RECORD, id="last offset delta"),
        pytest.param(rewritten(BATCH, 57, "i", 3), ErrorCode.INVALID_RECORD, id="count"),
        pytest.param(rewritten(rewritten(BATCH, 57, "i", 0), 23, "i", -1), ErrorCode.INVALID_RECORD, id="no records"),
        pytest.param(rewritten(BATCH, 21, "h", records.CONTROL), ErrorCode.INVALID_RECORD, id="control"),
        pytest.param(rewritten(BATCH, 21, "h", 5), ErrorCode.INVALID_RECORD, id="undefined compression"),
        pytest.param(rewritten(IDEMPOTENT, 53, "i", -1), ErrorCode.INVALID_RECORD, id="no sequence"),
        pytest.param(rewritten(IDEMPOTENT, 51, "h", -1), ErrorCode.INVALID_RECORD, id="no epoch"),
        pytest.param(rewritten(BATCH, 17, "I", 1, fix_crc=False), ErrorCode.CORRUPT_MESSAGE, id="crc"),
        pytest.param(rewritten(BATCH, 80, "b", 1, fix_crc=False), ErrorCode.CORRUPT_MESSAGE, id="damaged"),
    ],
)
def test_what_a_producer_may_not_send(sent: memoryview | None, code: ErrorCode) -> None:
    assert validate_batch_set(memoryview(BATCH)).record_count == 2
    with pytest.raises(Refused) as refused:
        validate_batch_set(sent)
    assert refused.value.code is code


def test_a_batch_is_bounded() -> None:
    assert validate_batch_set(memoryview(BATCH), len(BATCH)).size == len(BATCH)
    with pytest.raises(Refused) as refused:
        validate_batch_set(memoryview(BATCH), len(BATCH) - 1)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_zstd_needs_a_newer_produce() -> None:
    batch = memoryview(build_batch([ONE], compression=Compression.ZSTD))
    assert validate_batch_set(batch).compression == Compression.ZSTD
    with pytest.raises(Refused) as refused:
        validate_batch_set(batch, zstd_allowed=False)
    assert refused.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_run_of_batches_leaves_out_the_one_cut_off() -> None:
    run = memoryview(BATCH + IDEMPOTENT + BATCH[:70])
    found = list(iterate_batches(run))
    assert [bytes(view) for _, view in found] == [BATCH, IDEMPOTENT]
    assert [header.producer_id for header, _ in found] == [-1, 1]
    assert list(iterate_batches(run[:40])) == []


@pytest.mark.parametrize(("position", "code", "number"), [(16, "b", 1), (8, "i", 10), (8, "i", -12)])
def test_a_run_of_something_else_is_refused(position: int, code: str, number: int) -> None:
    with pytest.raises(ProtocolError):
        list(iterate_batches(rewritten(BATCH, position, code, number)))


def test_a_short_header_is_refused() -> None:
    with pytest.raises(ProtocolError, match="record batch"):
        parse_batch_header(BATCH[:60])


def test_only_protocol_errors_escape_from_mutated_records() -> None:
    random, original = Random(3), build_batch([ONE] * 3)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(3000):
        data = bytearray(original)
        data[random.randrange(12, len(data))] = random.randrange(256)
        try:
            list(iterate_records(data))
            outcomes["read"] += 1
        except (ProtocolError, LimitExceeded):
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 100


@pytest.mark.parametrize("cut", range(61, len(BATCH)))
def test_truncated_records_are_refused(cut: int) -> None:
    with pytest.raises(ProtocolError):
        list(iterate_records(BATCH[:cut]))


def test_a_count_of_records_is_not_believed() -> None:
    with pytest.raises(ProtocolError):
        list(iterate_records(rewritten(BATCH, 57, "i", 2**31 - 1)))
    with pytest.raises(ProtocolError, match="after its last record"):
        list(iterate_records(rewritten(BATCH, 57, "i", 1)))


def test_header_keys_are_text_and_not_null() -> None:
    def batch_of(record: bytes) -> bytes:
        batch = bytearray(build_batch([Record()])[:61] + bytes([2 * len(record)]) + record)
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        return bytes(batch)

    assert list(iterate_records(batch_of(b"\0\0\0\x01\x01\x02\x02h\x01"))) == [Record(headers=[("h", None)])]
    for header in (b"\x01\x01", b"\x02\xff\x01"):
        with pytest.raises(ProtocolError):
            list(iterate_records(batch_of(b"\0\0\0\x01\x01\x02" + header)))


def test_what_records_unpack_to_is_bounded() -> None:
    batch = build_batch([Record(value=bytes(100_000))], compression=Compression.GZIP)
    assert len(batch) < 1000
    with pytest.raises(LimitExceeded):
        list(iterate_records(batch, bytes_max=50_000))


def test_an_unreadable_batch_is_refused() -> None:
    with pytest.raises(ProtocolError, match="compression 6"):
        list(iterate_records(rewritten(BATCH, 21, "h", 6)))


def test_validation_reads_the_header_and_leaves_the_records_alone() -> None:
    """Records are opaque to a broker: a sound CRC over nonsense passes."""
    nonsense: Any = bytearray(BATCH)
    nonsense[61:] = b"\xff" * (len(nonsense) - 61)
    struct.pack_into(">I", nonsense, 17, crc32c(bytes(nonsense[21:])))
    assert validate_batch_set(memoryview(nonsense)).record_count == 2
