"""Records turned into stored messages in one pass are those of the general encoders, and are kept for other readers."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.stored_runs import check_agreement, forms_of, ways

from hutong.broker.rocketmq.records import converted, stored_runs
from hutong.broker.rocketmq.records.collected import Collected
from hutong.broker.rocketmq.records.converted import ConvertedBatch, ConvertedBatches
from hutong.broker.rocketmq.records.positions import physical_offset
from hutong.broker.rocketmq.records.stored_forms import QueueOfForms, StoredForm
from hutong.broker.rocketmq.records.stored_runs import RunBounds, RunOf, StoredRun
from hutong.broker.rocketmq.records.translation import ORIGIN_HEADER, message_of, origin
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
from hutong.wire.rocketmq.messages import Host, decode_messages, encode_message

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


def all_forms(way: RunOf, batch: bytes) -> list[StoredForm]:
    header = parse_batch_header(batch)
    return forms_of(way, unpacked_records(header, batch), header, QUEUE)


def slowly(batch: bytes) -> list[StoredForm]:
    found = []
    for record in iterate_records(batch):
        physical = physical_offset(QUEUE.log_id, record.offset)
        message = message_of(record, QUEUE.topic, QUEUE.queue_id, physical, QUEUE.host)
        found.append(StoredForm(record.offset, encode_message(message), message.properties))
    return found


WAYS = pytest.mark.parametrize("way", ways(), ids=lambda way: way.__name__)


@WAYS
@given(
    st.lists(RECORDS, min_size=1, max_size=5),
    st.integers(0, 2**39),
    st.sampled_from([0, LOG_APPEND_TIME]),
    st.sampled_from([Compression.NONE, Compression.LZ4]),
)
def test_records_are_the_messages_of_the_encoders(
    way: RunOf, records: list[Record], base_offset: int, attributes: int, compression: Compression
) -> None:
    batch = build_batch(records, base_offset=base_offset, attributes=attributes, compression=compression)
    assert all_forms(way, batch) == slowly(batch)


@WAYS
@given(st.lists(RECORDS, min_size=1, max_size=3), st.data())
def test_a_forged_batch_is_refused_as_by_the_decoder(way: RunOf, records: list[Record], data: st.DataObject) -> None:
    batch = bytearray(build_batch(records))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    expected: list[StoredForm] | None = None
    # The encoder has no room for what a forged batch may say, such as a time of over 64 bits.
    with suppress(ProtocolError, struct.error):
        expected = slowly(bytes(batch))
    if expected is not None:
        assert all_forms(way, bytes(batch)) == expected
    else:
        with pytest.raises(ProtocolError):
            all_forms(way, bytes(batch))


@given(
    st.lists(RECORDS, min_size=1, max_size=6),
    st.builds(RunBounds, st.integers(-1, 12), st.integers(1, 4), st.integers(1, 2_000) | st.just(2**40)),
    st.sampled_from([0, LOG_APPEND_TIME]),
    st.data(),
)
def test_both_ways_make_the_same_runs(
    records: list[Record], bounds: RunBounds, attributes: int, data: st.DataObject
) -> None:
    batch = bytearray(build_batch(records, base_offset=5, attributes=attributes))
    for _ in range(data.draw(st.integers(0, 3))):
        batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.just(len(batch)) | st.integers(HEADER_BYTES, len(batch)))
    header = parse_batch_header(bytes(batch))
    check_agreement(bytes(batch[HEADER_BYTES:cut]), header, QUEUE, bounds)


@WAYS
@pytest.mark.parametrize("size", range(20))
def test_the_check_of_a_body_of_any_length_is_right(way: RunOf, size: int) -> None:
    (form,) = all_forms(way, build_batch([Record(value=bytes(range(200, 200 + size)))]))
    (message,) = decode_messages(form.stored)
    assert message.body == bytes(range(200, 200 + size))


@WAYS
def test_ordinary_records_are_one_run(way: RunOf) -> None:
    host = Host(bytes(range(16)), 80)
    headers = [("TAGS", b"a"), ("\u80e1\u540c", "\u540c".encode()), (ORIGIN_HEADER, origin(1, 2, 3, 4, host))]
    records = [Record(key=b"k", value=b"body", headers=headers), Record(value=None), Record(headers=[("KEYS", b"a b")])]
    batch = build_batch(records, base_offset=5)
    header, data = parse_batch_header(batch), batch[HEADER_BYTES:]
    run = way(data, header, QUEUE, 0, 3, RunBounds(0, 9, 9_999))
    assert (run.walked, run.position, run.offsets.tolist()) == (3, len(data), [5, 6, 7])
    assert [run.form(index) for index in range(3)] == slowly(batch)
    # From an offset on, by count, and by bytes: the message that fills them is taken.
    assert way(data, header, QUEUE, 0, 3, RunBounds(6, 1, 9_999)).offsets.tolist() == [6]
    assert way(data, header, QUEUE, 0, 3, RunBounds(0, 9, run.ends[0] + 1)).offsets.tolist() == [5, 6]
    assert way(data, header, QUEUE, 0, 3, RunBounds(0, 9, run.ends[0])).offsets.tolist() == [5]


def test_the_compiled_pass_refuses_what_is_out_of_bounds() -> None:
    if stored_runs._compiled is None:
        pytest.skip("there is no compiled pass")
    run = stored_runs._compiled.stored_run
    good: tuple[object, ...] = (b"", b"t", bytes(8), 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1)
    assert run(*good) == (b"", b"", 0, 0)
    bounds: list[tuple[int, object]] = [(1, bytes(128)), (2, bytes(7)), (3, -1), (3, 1), (4, -1), (12, -1)]
    for place, wrong in bounds:
        with pytest.raises(ValueError, match="out of its bounds"):
            run(*good[:place], wrong, *good[place + 1 :])
    types: list[tuple[int, object]] = [(0, "text"), (2, None), (5, 2**63), (6, "1")]
    for place, wrong in types:
        with pytest.raises((TypeError, OverflowError)):
            run(*good[:place], wrong, *good[place + 1 :])
    with pytest.raises(TypeError, match="14 arguments"):
        run(*good, 1)


def test_a_batch_is_turned_into_messages_once_and_only_as_far_as_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    turned: list[int] = []
    real = stored_runs.stored_run

    def watched(*given: object) -> StoredRun:
        run = real(*given)  # type: ignore[arg-type]
        turned.extend(run.offsets)
        return run

    monkeypatch.setattr(stored_runs, "stored_run", watched)
    batch = build_batch([Record(value=b"%d" % number) for number in range(10)], base_offset=5)
    header, batches = parse_batch_header(batch), ConvertedBatches()
    assert read(batches.of(header, batch, QUEUE), 7, 2) == [7, 8]
    assert turned == [5, 6, 7, 8]
    assert read(batches.of(header, batch, QUEUE), 6, 99) == [*range(6, 15)]
    assert turned == [*range(5, 15)]
    # Under its other name, and after another leader has written its own records there.
    assert read(batches.of(header, batch, QueueOfForms("RETRY.g", 3, 77, HOST)), 5, 99) == [*range(5, 15)]
    other = build_batch([Record(value=b"other")], base_offset=5)
    ((run, _),) = batches.of(parse_batch_header(other), other, QUEUE).begin_at(5, 1, 1)
    assert run.form(0).stored.endswith(b"%RETRY%g\x00\x00")


def test_records_of_a_large_batch_in_front_of_an_offset_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converted, "BATCH_BYTES_MAX", 0)
    batch = build_batch([Record(value=b"%d" % number) for number in range(10)], base_offset=5)
    header, batches = parse_batch_header(batch), ConvertedBatches()
    for _ in range(2):
        ((run, index), *_) = batches.of(header, batch, QUEUE).begin_at(12, 2, 9_999)
        assert (index, run.offsets.tolist()) == (0, [12, 13])
    assert read(batches.of(header, batch, QUEUE), 15, 9) == []


def read(batch: ConvertedBatch, offset: int, messages_max: int) -> list[int]:
    """The offsets of messages in an answer."""
    found = Collected(offset, messages_max, 2**40)
    for part in batch.begin_at(offset, *found.room):
        found.take(part)
        if found.is_full:
            break
    messages = [*decode_messages(b"".join(found.pieces))]
    assert (found.count, found.size) == (len(messages), sum(map(len, found.pieces)))
    assert found.next_offset == (messages[-1].queue_offset + 1 if messages else offset)
    return [message.queue_offset for message in messages]


@given(st.integers(0, 9), st.integers(1, 12), st.integers(1, 2_000), st.integers(1, 4))
def test_an_answer_has_what_is_asked_for(offset: int, messages_max: int, bytes_max: int, run_messages: int) -> None:
    batch = build_batch([Record(value=bytes(number * 30)) for number in range(10)])
    header = parse_batch_header(batch)
    singly, together = (Collected(offset, messages_max, bytes_max) for _ in range(2))
    for collected in (singly, together):
        for part in ConvertedBatch(header, batch, QUEUE).begin_at(offset, run_messages, 9_999):
            if collected is singly:
                collected.take_some(part, lambda _form: True)
            else:
                collected.take(part)
            if collected.is_full:
                break
    assert b"".join(singly.pieces) == b"".join(together.pieces)
    assert (singly.count, singly.size, singly.next_offset) == (together.count, together.size, together.next_offset)


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
        parts = batches.of(header, bytes(batch), QUEUE).begin_at(0, 9, 9_999)
        assert next(parts).run.offsets.tolist() == [0]
        with pytest.raises(ProtocolError):
            next(parts)
    # What follows the last record, too.
    batch = bytearray(build_batch([Record(value=b"whole"), Record()]))
    batch[HEADER_BYTES - 1] = 1
    header = parse_batch_header(batch)
    for _ in range(2):
        with pytest.raises(ProtocolError, match="after its last record"):
            [*batches.of(header, bytes(batch), QUEUE).begin_at(0, 9, 9_999)]
