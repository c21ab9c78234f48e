"""Records turned into stored messages in one pass are those of the general encoders, and are kept for other readers."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.broker.rocketmq.records import converted
from hutong.broker.rocketmq.records.converted import ConvertedBatch, ConvertedBatches
from hutong.broker.rocketmq.records.positions import physical_offset
from hutong.broker.rocketmq.records.stored_forms import QueueOfForms, StoredForm, stored_forms
from hutong.broker.rocketmq.records.translation import message_of, origin
from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.batch.records import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    Record,
    build_batch,
    iterate_records,
    parse_batch_header,
    unpacked_records,
)
from hutong.wire.rocketmq.messages import Host, encode_message

HOST = Host(bytes([127, 0, 0, 1]), 9_876)
QUEUE = QueueOfForms("%RETRY%g", 3, 77, HOST)
ORIGINS = st.builds(
    origin,
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.builds(Host, st.binary(max_size=17), st.integers(-(2**31), 2**31 - 1)),
)
NAMES = st.sampled_from(["rocketmq", "KEYS", "TOMBSTONE", "TAGS", "", "é", "a\x01", "b\x02"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=8
)
VALUES = st.none() | st.binary(max_size=20) | ORIGINS | st.sampled_from([b"\x01", b"\xff", b"x" * 20_000])
HEADERS = st.lists(st.tuples(NAMES, VALUES), max_size=6) | st.integers(60, 70).map(
    lambda count: [(f"n{number}", b"v") for number in range(count)]
)
RECORDS = st.builds(
    Record, st.just(0), st.integers(0, 2**50), st.none() | st.binary(max_size=9), st.none() | st.binary(), HEADERS
)


def forms_of(batch: bytes) -> list[StoredForm]:
    header = parse_batch_header(batch)
    return [*stored_forms(unpacked_records(header, batch), header, QUEUE)]


def slowly(batch: bytes) -> list[StoredForm]:
    found = []
    for record in iterate_records(batch):
        physical = physical_offset(QUEUE.log_id, record.offset)
        message = message_of(record, QUEUE.topic, QUEUE.queue_id, physical, QUEUE.host)
        found.append(StoredForm(record.offset, encode_message(message), message.properties))
    return found


@given(
    st.lists(RECORDS, min_size=1, max_size=5),
    st.integers(0, 2**39),
    st.sampled_from([0, LOG_APPEND_TIME]),
    st.sampled_from([Compression.NONE, Compression.LZ4]),
)
def test_records_are_the_messages_of_the_encoders(
    records: list[Record], base_offset: int, attributes: int, compression: Compression
) -> None:
    batch = build_batch(records, base_offset=base_offset, attributes=attributes, compression=compression)
    assert forms_of(batch) == slowly(batch)


@given(st.lists(RECORDS, min_size=1, max_size=3), st.data())
def test_a_forged_batch_is_refused_as_by_the_decoder(records: list[Record], data: st.DataObject) -> None:
    batch = bytearray(build_batch(records))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    expected: list[StoredForm] | None = None
    # The encoder has no room for what a forged batch may say, such as a time of over 64 bits.
    with suppress(ProtocolError, struct.error):
        expected = slowly(bytes(batch))
    if expected is not None:
        assert forms_of(bytes(batch)) == expected
    else:
        with pytest.raises(ProtocolError):
            forms_of(bytes(batch))


def test_a_batch_is_turned_into_messages_once_and_only_as_far_as_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    turned: list[int] = []

    def watched(*given: object) -> object:
        for form in stored_forms(*given):  # type: ignore[arg-type]
            turned.append(form.offset)
            yield form

    monkeypatch.setattr(converted, "stored_forms", watched)
    batch = build_batch([Record(value=b"%d" % number) for number in range(10)], base_offset=5)
    header, batches = parse_batch_header(batch), ConvertedBatches()
    first = batches.of(header, batch, QUEUE).begin_at(7)
    assert [next(first).offset, next(first).offset] == [7, 8]
    assert turned == [5, 6, 7, 8]
    assert [form.offset for form in batches.of(header, batch, QUEUE).begin_at(6)] == [*range(6, 15)]
    assert turned == [*range(5, 15)]
    # Under its other name, and after another leader has written its own records there.
    assert len([*batches.of(header, batch, QueueOfForms("RETRY.g", 3, 77, HOST)).begin_at(5)]) == 10
    other = build_batch([Record(value=b"other")], base_offset=5)
    (form,) = batches.of(parse_batch_header(other), other, QUEUE).begin_at(5)
    assert form.stored.endswith(b"%RETRY%g\x00\x00")


def test_what_is_kept_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = ConvertedBatches()
    made: list[int] = []

    class Watched(ConvertedBatch):
        def __init__(self, *given: object) -> None:
            super().__init__(*given)  # type: ignore[arg-type]
            made.append(self.size)

    monkeypatch.setattr(converted, "ConvertedBatch", Watched)

    def read(base_offset: int, size: int) -> None:
        batch = build_batch([Record(value=bytes(size))], base_offset=base_offset)
        batches.of(parse_batch_header(batch), batch, QUEUE)

    for _ in range(2):
        read(0, converted.BATCH_BYTES_MAX)
    assert len(made) == 2, "too large to be kept"
    for number in range(1, 20):
        read(number, 240_000)
    assert batches._bytes <= converted.KEPT_BYTES_MAX
    made.clear()
    read(19, 240_000)
    assert made == []
    read(1, 240_000)
    assert len(made) == 1, "the oldest is forgotten"


def test_every_reader_of_a_broken_batch_hears_of_it() -> None:
    batch = bytearray(build_batch([Record(value=b"whole"), Record(value=b"broken")]))
    batch[-1] = 9
    header, batches = parse_batch_header(batch), ConvertedBatches()
    for _ in range(2):
        forms = batches.of(header, bytes(batch), QUEUE).begin_at(0)
        assert next(forms).offset == 0
        with pytest.raises(ProtocolError):
            next(forms)
