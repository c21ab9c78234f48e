"""The content of batches: one suite for the walk in Python and the compiled one, and each against the other."""

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.record_walks import check_agreement, walks

from hutong.foundation.errors import LimitExceeded, ProtocolError
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.batch.record_contents import examine_batch, with_max_timestamp
from hutong.wire.kafka.batch.record_walk import INT64_MAX, INT64_MIN, NO_TIMESTAMP, RECORDS_NAMED_MAX
from hutong.wire.kafka.batch.records import (
    HEADER_BYTES,
    Record,
    build_batch,
    is_intact,
    iterate_records,
    parse_batch_header,
)
from hutong.wire.kafka.varint import varlong

RECORDS = st.lists(
    st.builds(
        Record,
        timestamp_ms=st.integers(-(2**40), 2**40),
        key=st.none() | st.binary(max_size=200),
        value=st.none() | st.binary(max_size=200),
        headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


WALKS = pytest.mark.parametrize("walk", walks(), ids=lambda walk: walk.__name__.rpartition(".")[2])


def record(
    *,
    attributes: bytes = b"\0",
    timestamp_delta: bytes = b"\0",
    offset_delta: bytes = b"\0",
    key: bytes = b"\x01",
    value: bytes = b"\x01",
    headers: bytes = b"\0",
    length: bytes | None = None,
) -> bytes:
    """One record of raw fields; its length is that of the fields unless given."""
    fields = attributes + timestamp_delta + offset_delta + key + value + headers
    return (varlong(len(fields)) if length is None else length) + fields


def examine(walk: ModuleType, data: bytes, count: int = 1, base_timestamp_ms: int = 0) -> tuple[object, ...]:
    found: tuple[object, ...] = walk.examine_records(data, 0, count, base_timestamp_ms, INT64_MIN, INT64_MAX)
    return tuple(found)


@WALKS
@given(records=RECORDS, lead=st.binary(max_size=9))
def test_sound_records_are_taken_and_told(walk: ModuleType, records: list[Record], lead: bytes) -> None:
    batch = build_batch(records)
    base_ms = records[0].timestamp_ms
    data = lead + batch[HEADER_BYTES:]
    found = walk.examine_records(data, len(lead), len(records), base_ms, 0, 2**39)
    assert found.greatest_timestamp_ms == max(NO_TIMESTAMP, *(one.timestamp_ms for one in records))
    assert walk.greatest_timestamp(data, len(lead), len(records), base_ms) == found.greatest_timestamp_ms
    assert found.keyless == tuple(index for index, one in enumerate(records) if one.key is None)
    assert found.untimely == tuple(
        index for index, one in enumerate(records) if one.timestamp_ms != -1 and not 0 <= one.timestamp_ms <= 2**39
    )


@WALKS
@given(records=RECORDS)
def test_records_cut_anywhere_or_trailed_by_anything_are_refused(walk: ModuleType, records: list[Record]) -> None:
    data = build_batch(records)[HEADER_BYTES:]
    for end in range(len(data)):
        with pytest.raises(ProtocolError):
            examine(walk, data[:end], len(records))
    for trailing in (b"\0", b"\xff" * 50, record(offset_delta=varlong(len(records)))):
        with pytest.raises(ProtocolError):
            examine(walk, data + trailing, len(records))
    with pytest.raises(ProtocolError):
        examine(walk, data, len(records) + 1)
    with pytest.raises(ProtocolError):
        examine(walk, data, len(records) - 1)


MALFORMED = {
    "fifty bytes of 0xff": b"\xff" * 50,
    "a length of zero": b"\0" * 10,
    "a negative length": record(length=b"\x01"),
    "a length beyond the data": record(length=b"\x10"),
    "a length within the record": record(value=b"\x08abcd", length=b"\x0c"),
    "a length of six bytes": record(length=b"\x8c\x80\x80\x80\x80\x00"),
    "a length above 32 bits": record(length=b"\xff\xff\xff\xff\x1f"),
    "a timestamp of eleven bytes": record(timestamp_delta=b"\x80" * 10 + b"\0"),
    "a timestamp above 64 bits": record(timestamp_delta=b"\xff" * 9 + b"\x02"),
    "an offset of six bytes": record(offset_delta=b"\x80" * 5 + b"\0"),
    "an offset above 32 bits": record(offset_delta=b"\x80" * 4 + b"\x10"),
    "an offset delta that is not the index": record(offset_delta=b"\x02"),
    "a negative offset delta": record(offset_delta=b"\x01"),
    "a key length of -2": record(key=b"\x03"),
    "a key beyond the record": record(key=b"\x10"),
    "a key beyond 31 bits": record(key=b"\xfe\xff\xff\xff\x0f"),
    "a value length of -2": record(value=b"\x03"),
    "a value beyond the record": record(value=b"\x04"),
    "a negative header count": record(headers=b"\x01"),
    "more headers than bytes": record(headers=b"\xfe\xff\xff\xff\x0f"),
    "a header without a key": record(headers=b"\x02\x01\x01"),
    "a header key beyond the record": record(headers=b"\x02\x08\x01"),
    "a header value beyond the record": record(headers=b"\x02\x02a\x04"),
    "a header value of -2": record(headers=b"\x02\x02a\x03"),
    "a byte after the headers": record(headers=b"\0\0"),
    "a header missing": record(headers=b"\x04\x02a\x01"),
}


@WALKS
@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_malformed_records_are_refused(walk: ModuleType, data: bytes) -> None:
    assert examine(walk, record()) == (0, (0,), ())
    with pytest.raises(ProtocolError):
        examine(walk, data)


@WALKS
def test_what_kafka_takes_is_taken(walk: ModuleType) -> None:
    """Attributes are unused, header keys are bytes to a broker, and a varint may be longer than it need be."""
    assert examine(walk, record(attributes=b"\xff")) == (0, (0,), ())
    assert examine(walk, record(headers=b"\x02\x02\xff\x01"))
    assert examine(walk, record(headers=b"\x02\x00\x00"))
    assert examine(walk, record(timestamp_delta=b"\x80" * 9 + b"\0", offset_delta=b"\x80" * 4 + b"\0"))
    assert examine(walk, record(key=b"\0", value=b"\0")) == (0, (), ())


@WALKS
def test_timestamps_that_do_not_fit_64_bits_are_refused(walk: ModuleType) -> None:
    later, earlier = varlong(1), varlong(-1)
    assert examine(walk, record(timestamp_delta=later), 1, INT64_MAX - 1) == (INT64_MAX, (0,), ())
    assert examine(walk, record(timestamp_delta=earlier), 1, INT64_MIN + 1) == (NO_TIMESTAMP, (0,), ())
    lowest = varlong(INT64_MIN)
    assert examine(walk, record(timestamp_delta=lowest), 1, 0) == (NO_TIMESTAMP, (0,), ())
    for delta, base_ms in ((later, INT64_MAX), (earlier, INT64_MIN), (lowest, -1)):
        with pytest.raises(ProtocolError, match="64 bits"):
            examine(walk, record(timestamp_delta=delta), 1, base_ms)


@WALKS
def test_no_count_costs_more_than_the_bytes(walk: ModuleType) -> None:
    for count in (2**31 - 1, -1, -(2**31)):
        for data in (b"", record()):
            with pytest.raises(ProtocolError):
                examine(walk, data, count)
            with pytest.raises(ProtocolError):
                walk.first_from(data, 0, count, 0, 0, 0, 2**31)
            with pytest.raises(ProtocolError):
                walk.greatest_in(data, 0, count, 0, 0, 2**31)
    assert examine(walk, b"", 0) == (NO_TIMESTAMP, (), ())


@WALKS
def test_only_the_first_records_at_fault_are_named(walk: ModuleType) -> None:
    data = b"".join(record(offset_delta=varlong(index)) for index in range(RECORDS_NAMED_MAX + 50))
    found = walk.examine_records(data, 0, RECORDS_NAMED_MAX + 50, 7, 8, 9)
    assert found.keyless == found.untimely == tuple(range(RECORDS_NAMED_MAX))


@WALKS
@given(records=RECORDS, from_ms=st.integers(-(2**40), 2**40), least=st.integers(0, 22), end=st.integers(0, 22))
def test_searches_find_what_a_list_would(
    walk: ModuleType, records: list[Record], from_ms: int, least: int, end: int
) -> None:
    batch = build_batch(records)
    arguments = batch, HEADER_BYTES, len(records), records[0].timestamp_ms
    seen = [(one.timestamp_ms, one.offset) for one in iterate_records(batch) if least <= one.offset < end]
    assert walk.first_from(*arguments, from_ms, least, end) == next((one for one in seen if one[0] >= from_ms), None)
    assert walk.greatest_in(*arguments, least, end) == max(seen, key=lambda one: (one[0], -one[1]), default=None)


@pytest.mark.parametrize("compression", Compression)
def test_batches_of_every_codec_are_examined_within_a_bound(compression: Compression) -> None:
    records = [Record(timestamp_ms=10 + index, key=b"key", value=bytes(50)) for index in range(100)]
    batch = build_batch(records, compression=compression)
    header = parse_batch_header(batch)
    unpacked = len(build_batch(records)) - HEADER_BYTES
    assert tuple(examine_batch(header, batch, unpacked)) == (109, (), ())
    assert examine_batch(header, memoryview(batch), unpacked, 11, 107).untimely == (0, 98, 99)
    assert examine_batch(header, batch, unpacked, 20 - 2**63, 20 + 2**63).untimely == ()
    with pytest.raises(LimitExceeded):
        examine_batch(header, batch, unpacked - 1)


def test_an_undefined_codec_is_refused() -> None:
    batch = build_batch([Record()], attributes=7)
    with pytest.raises(ProtocolError, match="compression 7"):
        examine_batch(parse_batch_header(batch), batch, 1000)


def test_a_wrong_greatest_timestamp_is_corrected() -> None:
    batch = build_batch([Record(timestamp_ms=5), Record(timestamp_ms=9)])
    corrected = with_max_timestamp(with_max_timestamp(batch, 2**50), 9)
    assert corrected == batch
    changed = memoryview(with_max_timestamp(memoryview(batch), 7))
    assert parse_batch_header(changed).max_timestamp_ms == 7
    assert is_intact(changed, parse_batch_header(changed))


INT64 = st.integers(INT64_MIN, INT64_MAX)
NUMBERS = st.tuples(INT64, st.integers(-3, 30), st.integers(-3, 30))
CHANGES = st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=4)


@given(
    records=RECORDS,
    changes=CHANGES,
    more=st.integers(-1, 1),
    base_ms=INT64,
    numbers=NUMBERS,
    lead=st.binary(max_size=3),
)
def test_both_walks_agree_on_mutated_records(
    records: list[Record],
    changes: list[tuple[int, int]],
    more: int,
    base_ms: int,
    numbers: tuple[int, int, int],
    lead: bytes,
) -> None:
    data = bytearray(build_batch(records)[HEADER_BYTES:])
    for position, value in changes:
        data[position % len(data)] = value
    check_agreement(lead + bytes(data), len(lead), len(records) + more, base_ms, numbers)


@given(st.binary(max_size=60), st.integers(-1, 4), st.integers(-1, 61), st.integers(-(2**31), 2**31), INT64, NUMBERS)
def test_both_walks_agree_on_any_bytes(
    data: bytes, start: int, few: int, many: int, base_ms: int, numbers: tuple[int, int, int]
) -> None:
    check_agreement(data, start, few, base_ms, numbers)
    check_agreement(data, start, many, base_ms, numbers)


FIELD_BYTES = st.sampled_from(
    [b"\0", b"\1", b"\2", b"\x7f", b"\x80", b"\x81", b"\xff", b"\x0f", b"\x10", b"\x80\x80\x80\x80"]
)


@given(st.lists(FIELD_BYTES, max_size=40), st.integers(0, 4), INT64, NUMBERS)
def test_both_walks_agree_on_odd_varints(
    fields: list[bytes], count: int, base_ms: int, numbers: tuple[int, int, int]
) -> None:
    content = b"".join(fields)
    check_agreement(varlong(len(content)) + content, 0, count, base_ms, numbers)
    check_agreement(record(timestamp_delta=content), 0, 1, base_ms, numbers)
    check_agreement(record(offset_delta=content), 0, 1, base_ms, numbers)
    check_agreement(record(key=content), 0, 1, base_ms, numbers)
    check_agreement(record(headers=content), 0, 1, base_ms, numbers)


def test_the_compiled_walk_runs_others_meanwhile() -> None:
    """A walk long enough to give the interpreter's lock away says the same as a short one."""
    count = 20_000
    data = b"".join(record(offset_delta=varlong(index), timestamp_delta=varlong(index)) for index in range(count))
    check_agreement(data, 0, count, 0, (5, count - 1, count))
    check_agreement(data[:-1], 0, count, 0, (5, count - 1, count))
    check_agreement(data, 0, count - 1, 0, (5, count - 1, count))
