"""The sparse index: where extents begin and end, and that its file is believed only when whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import CorruptData
from hutong.journal.format.index import (
    HEADER_BYTES,
    SUMMARY,
    Extent,
    SegmentIndex,
    encode_index,
    parse_index,
    parse_summary,
)

INTERVAL, DISTANCE = 1000, 5000
runs = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 100), st.integers(61, 2000), st.integers(-1, 50)), max_size=80
)
Runs = list[tuple[int, int, int, int]]


def index_of(script: Runs) -> tuple[SegmentIndex, int, dict[int, list[tuple[int, int, int]]]]:
    """The index of (partition, records, bytes, timestamp) runs, its end, each partition's (offset, end, position)."""
    index, position = SegmentIndex(10_000, INTERVAL, DISTANCE), 10_000
    offsets: dict[int, int] = {}
    told: dict[int, list[tuple[int, int, int]]] = {}
    for partition_id, count, size, timestamp_ms in script:
        offset = offsets.get(partition_id, 7)
        offsets[partition_id] = offset + count
        index.of(partition_id).add(offset, offset + count, position, size, timestamp_ms)
        told.setdefault(partition_id, []).append((offset, offset + count, position))
        position += size + 80
    return index, position, told


@given(runs)
def test_every_run_lies_in_the_extent_that_its_offsets_lead_to(script: Runs) -> None:
    index, _, told = index_of(script)
    for partition_id, expected in told.items():
        extents = index.extents[partition_id]
        for base_offset, end_offset, position in expected:
            for offset in (base_offset, end_offset - 1):
                extent = extents[extents.number_for(offset)]
                assert extent.base_offset <= offset
                assert extent.first_position <= position <= extent.last_position
        assert all(extents[n].last_position - extents[n].first_position <= DISTANCE for n in range(len(extents)))


@given(runs, runs)
def test_a_copy_stays_as_it_is_while_the_index_grows(script: Runs, more: Runs) -> None:
    index, end, _ = index_of(script)
    content, copy = encode_index(index, end), index.copy()
    for partition_id, count, size, timestamp_ms in more:
        extents = index.of(partition_id)
        extents.add(extents.end_offset, extents.end_offset + count, end, size, timestamp_ms)
    assert encode_index(copy, end) == content


@given(runs)
def test_the_file_holds_the_index(script: Runs) -> None:
    index, end, told = index_of(script)
    content = encode_index(index, end)
    parsed_end, parsed = parse_index(content, INTERVAL, DISTANCE)
    assert parsed_end == end
    assert parsed.base_position == 10_000
    assert parsed.summaries() == index.summaries()
    for partition_id in told:
        before, after = index.extents[partition_id], parsed.extents[partition_id]
        assert [after[n] for n in range(len(after))] == [before[n] for n in range(len(before))]
    summary_bytes = HEADER_BYTES + len(told) * SUMMARY.size
    assert parse_summary(content[:summary_bytes]) == (end, index.summaries())


SAMPLE = encode_index(index_of([(1, 3, 500, 10), (2, 1, 90, -1), (1, 2, 900, 5)])[0], 12_000)


def test_a_damaged_file_is_noticed_at_every_byte() -> None:
    for at in range(len(SAMPLE)):
        damaged = bytearray(SAMPLE)
        damaged[at] ^= 0x10
        with pytest.raises(CorruptData):
            parse_index(bytes(damaged), INTERVAL, DISTANCE)


def test_a_file_cut_anywhere_is_noticed() -> None:
    for size in range(len(SAMPLE)):
        with pytest.raises(CorruptData):
            parse_index(SAMPLE[:size], INTERVAL, DISTANCE)


def test_a_loaded_index_goes_on_with_a_new_extent() -> None:
    end, index = parse_index(SAMPLE, INTERVAL, DISTANCE)
    extents = index.of(2)
    extents.add(8, 9, end, 61, 99)
    assert extents[1] == Extent(8, end, end, 99)
    assert extents.summary(2).bytes == 151
    assert extents.max_timestamp_ms == 99
