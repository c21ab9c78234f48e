"""Many batches by one call give the messages that they give one by one, and most batches are plain."""

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.stored_runs import collected_alike

from hutong.broker.rocketmq.records import plain_batches
from hutong.broker.rocketmq.records.collected import Collected
from hutong.broker.rocketmq.records.converted import ConvertedBatch, ConvertedBatches
from hutong.broker.rocketmq.records.plain_batches import Collecting
from hutong.broker.rocketmq.records.stored_forms import QueueOfForms
from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.apis.k01_fetch import AbortedTransaction, PartitionData
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.batch.records import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, Record, build_batch
from hutong.wire.rocketmq.messages import Host, decode_messages

QUEUE = QueueOfForms("orders", 3, 77, Host(bytes([127, 0, 0, 1]), 9_876))
HEADERS = st.lists(
    st.tuples(st.sampled_from(["TAGS", "KEYS", "a", "\u80e1"]), st.none() | st.binary(max_size=9)), max_size=3
)
RECORDS = st.lists(
    st.builds(
        Record, st.just(0), st.integers(0, 2**50), st.none() | st.binary(max_size=9), st.binary(max_size=40), HEADERS
    ),
    min_size=1,
    max_size=4,
)
KINDS = st.sampled_from([0, 0, 0, LOG_APPEND_TIME, CONTROL, TRANSACTIONAL])
CODECS = st.sampled_from([Compression.NONE] * 4 + [Compression.LZ4])
LIMITS = st.tuples(st.integers(0, 12), st.integers(1, 9), st.integers(1, 1_500) | st.just(2**40))
NEEDS_COMPILED = pytest.mark.skipif(plain_batches.stored_batches is None, reason="there is no compiled pass")


def log_of(batches: list[tuple[list[Record], int, Compression]]) -> list[bytes]:
    """Batches one behind the other, from offset 0 on."""
    found, offset = [], 0
    for records, attributes, codec in batches:
        found.append(build_batch(records, base_offset=offset, attributes=attributes, compression=codec))
        offset += len(records)
    return found


@given(st.lists(st.tuples(RECORDS, KINDS, CODECS), max_size=5), LIMITS, st.data())
def test_one_call_finds_what_is_found_batch_by_batch(
    batches: list[tuple[list[Record], int, Compression]], limits: tuple[int, int, int], data: st.DataObject
) -> None:
    log = bytearray(b"".join(log_of(batches)))
    # A batch is damaged, and a fetch may end in the middle of one.
    for _ in range(data.draw(st.integers(0, 2)) if log else 0):
        log[data.draw(st.integers(0, len(log) - 1))] = data.draw(st.integers(0, 255))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=2)))
    views = [memoryview(bytes(log[begin:end])) for begin, end in zip([0, *cuts], [*cuts, len(log)], strict=True)]
    collected_alike(views, QUEUE, limits)


@given(st.lists(st.tuples(RECORDS, KINDS, CODECS), max_size=5), LIMITS, st.data())
def test_it_does_so_of_sound_batches_in_any_pieces(
    batches: list[tuple[list[Record], int, Compression]], limits: tuple[int, int, int], data: st.DataObject
) -> None:
    log = log_of(batches)
    cut = data.draw(st.integers(0, len(log)))
    found = collected_alike([memoryview(b"".join(log[:cut])), memoryview(b"".join(log[cut:]))], QUEUE, limits)
    assert found is not None
    messages = [*decode_messages(b"".join(found.pieces))]
    assert [message.queue_offset for message in messages] == sorted({message.queue_offset for message in messages})
    assert all(message.queue_offset >= limits[0] for message in messages)


@NEEDS_COMPILED
def test_plain_batches_are_looked_at_by_one_call_alone() -> None:
    plain, odd = Record(key=b"k", value=b"v"), Record(headers=[("a", b"\x01")])
    log = [*log_of([([plain, plain], 0, Compression.NONE)] * 3), build_batch([odd], base_offset=6)]
    log.append(build_batch([plain], base_offset=7))
    made: list[int] = []

    class Watched(ConvertedBatches):
        def of(self, header, batch, queue):  # type: ignore[no-untyped-def]
            made.append(header.base_offset)
            return ConvertedBatch(header, batch, queue)

    found = Collected(1, 99, 9_999)
    views = [memoryview(b"".join(log[:2])), memoryview(b"".join(log[2:]))]
    Collecting(found, QUEUE, Watched()).collect(PartitionData(0, records=[*views]))
    assert (made, found.count, found.next_offset) == ([6], 7, 8)
    assert found.read_bytes == sum(map(len, log)) - 9, "the record in front of the offset is not counted"
    # A large one is kept, so that a pull in its middle does not walk it from its start.
    with mock.patch.object(plain_batches, "PLAIN_BYTES_MAX", 0):
        made.clear()
        found = Collected(1, 2, 9_999)
        Collecting(found, QUEUE, Watched()).collect(PartitionData(0, records=[*views]))
    assert (made, found.count, found.next_offset) == ([0, 2], 2, 3)


def test_what_was_aborted_is_left_out() -> None:
    record = Record(value=b"v")
    aborted = build_batch([record], attributes=TRANSACTIONAL, producer_id=5)
    marker = build_batch([record], base_offset=1, attributes=TRANSACTIONAL | CONTROL, producer_id=5)
    later = build_batch([record], base_offset=2, attributes=TRANSACTIONAL, producer_id=5)
    found = Collected(0, 99, 9_999)
    data = PartitionData(
        0, records=[memoryview(aborted + marker + later)], aborted_transactions=[AbortedTransaction(5, 0)]
    )
    Collecting(found, QUEUE, ConvertedBatches()).collect(data)
    assert [message.queue_offset for message in decode_messages(b"".join(found.pieces))] == [2]


@NEEDS_COMPILED
def test_the_compiled_pass_refuses_what_is_out_of_bounds() -> None:
    run = plain_batches.stored_batches
    assert run is not None
    good: tuple[object, ...] = ([b""], b"t", bytes(8), 0, 0, 5, 0, 0, 0, 1, 1, 9)
    assert run(*good) == (b"", 0, 5, 0, 1, 0)
    wrong_bounds: list[tuple[int, object]] = [
        (1, bytes(128)),
        (2, bytes(7)),
        (3, -1),
        (4, -1),
        (4, 1),
        (9, 0),
        (9, 2**40),
        (10, 0),
    ]
    for place, wrong in wrong_bounds:
        with pytest.raises(ValueError, match=r"out of its bounds|behind the buffer"):
            run(*good[:place], wrong, *good[place + 1 :])
    wrong_types: list[tuple[int, object]] = [(0, b""), (0, ["text"]), (1, None), (2, None), (5, 2**63), (6, "1")]
    for place, wrong in wrong_types:
        with pytest.raises((TypeError, OverflowError)):
            run(*good[:place], wrong, *good[place + 1 :])
    with pytest.raises(TypeError):
        run(*good, 1)


def test_a_batch_of_another_version_is_refused() -> None:
    batch = bytearray(build_batch([Record(value=b"v")]))
    batch[16] = 1
    found = Collected(0, 9, 9_999)
    with pytest.raises(ProtocolError, match="magic 1"):
        Collecting(found, QUEUE, ConvertedBatches()).collect(PartitionData(0, records=[memoryview(batch)]))
