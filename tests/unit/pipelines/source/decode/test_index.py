import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipelines.batches import batches, record_set, with_crc
from tests.unit.pipelines.unhurried import unhurried

from hutong.foundation.errors import ProtocolError
from hutong.pipelines.source.decode.index import (
    BASE_OFFSET,
    END,
    LAST_OFFSET,
    POSITION,
    RECORD_COUNT,
    check_crcs,
    index_batches,
)
from hutong.wire.kafka.batch.records import Record, build_batch

BATCH = build_batch([Record(value=b"one"), Record(value=b"two")], base_offset=40)


@unhurried
@given(st.lists(batches, max_size=5), st.binary(max_size=60))
def test_every_whole_batch_is_found_and_a_cut_one_left_out(groups: list[list[Record]], rest: bytes) -> None:
    content = record_set(groups, 100)
    index = index_batches(memoryview(content + rest))
    assert index.rows[:, RECORD_COUNT].tolist() == [len(group) for group in groups]
    assert index.rows[:, END].tolist()[-1:] == [len(content)][: len(groups)]
    if groups:
        assert index.rows[0, POSITION] == 0
        assert index.next_offset == 100 + sum(map(len, groups))
        assert (index.rows[1:, BASE_OFFSET] == index.rows[:-1, LAST_OFFSET] + 1).all()


@pytest.mark.parametrize("size", range(len(BATCH)))
def test_a_batch_cut_anywhere_is_left_out(size: int) -> None:
    assert index_batches(memoryview(BATCH[:size])).count == 0
    assert index_batches(memoryview(BATCH + BATCH[:size])).count == 1


@pytest.mark.parametrize(
    ("position", "code", "number", "problem"),
    [
        (8, ">i", 48, "length is smaller"),
        (8, ">i", -1, "length is smaller"),
        (16, ">b", 1, "not RecordBatch v2"),
        (0, ">q", -1, "run backwards"),
        (23, ">i", -1, "run backwards"),
        (57, ">i", 3, "more records"),
        (57, ">i", -1, "more records"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(position: int, code: str, number: int, problem: str) -> None:
    broken = bytearray(BATCH)
    struct.pack_into(code, broken, position, number)
    with pytest.raises(ProtocolError, match=problem):
        index_batches(memoryview(broken))


def test_a_count_that_the_bytes_cannot_hold_is_refused() -> None:
    broken = bytearray(BATCH)
    struct.pack_into(">i", broken, 23, 2**30)
    struct.pack_into(">i", broken, 57, 2**30)
    with pytest.raises(ProtocolError, match="more records"):
        index_batches(memoryview(broken))


@pytest.mark.parametrize("position", [21, 30, 43, 61, len(BATCH) - 1])
def test_a_changed_byte_breaks_the_crc(position: int) -> None:
    broken = bytearray(build_batch([Record(value=b"before")], base_offset=39) + BATCH)
    broken[position - len(BATCH)] ^= 0x40
    view = memoryview(broken)
    with pytest.raises(ProtocolError, match="the batch at offset 40 is corrupt"):
        check_crcs(view, index_batches(view).rows)


def test_the_crc_of_a_sound_batch_holds() -> None:
    view = memoryview(with_crc(BATCH))
    check_crcs(view, index_batches(view).rows)
