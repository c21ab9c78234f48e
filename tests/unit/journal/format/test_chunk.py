"""The chunk header: whole, damaged in every bit, misplaced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.checksum import crc32c
from hutong.foundation.errors import CorruptData
from hutong.journal.format import chunk

DIGEST = 0xC0FFEE
POSITION = 4096
entries = st.lists(
    st.tuples(
        st.integers(0, 2**32 - 1),  # partition id
        st.integers(0, 2**62),  # base offset
        st.integers(1, 2**31),  # offset count
        st.integers(61, 10_000),  # bytes
        st.integers(1, 100),  # batches
        st.integers(-1, 2**62),  # max timestamp
    ),
    min_size=1,
    max_size=20,
    unique_by=lambda entry: entry[0],
)


def header_of(runs: list[tuple[int, int, int, int, int, int]], position: int = POSITION) -> bytes:
    packed, start = [], 0
    for partition_id, base, count, size, batches, timestamp in runs:
        packed.append(chunk.ENTRY.pack(partition_id, chunk.BATCHES, base, count, start, size, batches, timestamp))
        start += size
    return chunk.encode_header(position, 3, 1_700_000_000_000, packed, start, digest=DIGEST)


def of_version_2(header: bytes) -> bytes:
    """The same header without a digest, as an earlier version wrote it."""
    total_bytes = int.from_bytes(header[16:20], "big") - 4
    checked = b"\0\2" + header[10:16] + total_bytes.to_bytes(4, "big") + header[20:-4]
    return header[:4] + crc32c(checked).to_bytes(4, "big") + checked


SAMPLE = header_of([(7, 100, 5, 400, 2, 1234), (0x00000007_00000000 >> 32, 0, 1, 61, 1, -1)][:1])


@given(entries, st.integers(0, 2**62))
def test_a_header_says_what_was_written(runs: list[tuple[int, int, int, int, int, int]], position: int) -> None:
    header = header_of(runs, position)
    assert chunk.header_bytes_at(header, 0, position) == len(header) == chunk.header_bytes_for(len(runs))
    parsed = chunk.parse_header(b"before" + header + b"after", 6, position)
    assert (parsed.position, parsed.leader_epoch, parsed.append_time_ms) == (position, 3, 1_700_000_000_000)
    assert parsed.digest == DIGEST
    assert parsed.end == position + len(header) + sum(run[3] for run in runs)
    at = position + len(header)
    for run, (partition_id, base, count, size, batches, timestamp) in zip(parsed.runs(), runs, strict=True):
        assert run == (partition_id, chunk.BATCHES, base, count, at, size, batches, timestamp)
        assert chunk.find_run(header, 0, position, partition_id) == (parsed.end, 3, run)
        at += size
    absent = next(number for number in range(100) if number not in {run[0] for run in runs})
    assert chunk.find_run(b"before" + header, 6, position, absent) == (parsed.end, 3, None)


def test_finding_a_partition_is_not_fooled_by_its_number_elsewhere() -> None:
    # The bytes of (partition 5, kind 0) also occur inside the first entry, where its offset is.
    header = header_of([(1, 5 << 32, 1, 61, 1, 5 << 32), (5, 9, 1, 70, 1, 0)])
    _, _, found = chunk.find_run(header, 0, POSITION, 5)
    assert found is not None
    assert found.base_offset == 9


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_anywhere_in_the_header_is_noticed(bit: int) -> None:
    for at in range(len(SAMPLE)):
        damaged = bytearray(SAMPLE)
        damaged[at] ^= 1 << bit
        with pytest.raises(CorruptData):
            chunk.parse_header(bytes(damaged) + bytes(1000), 0, POSITION)
        with pytest.raises(CorruptData):
            chunk.find_run(bytes(damaged) + bytes(1000), 0, POSITION, 7)


def test_a_header_cut_anywhere_is_noticed() -> None:
    for size in range(chunk.FIXED.size, len(SAMPLE)):
        with pytest.raises(CorruptData):
            chunk.parse_header(SAMPLE[:size], 0, POSITION)


def test_a_chunk_at_another_position_than_its_own_is_not_believed() -> None:
    with pytest.raises(CorruptData, match="was written for position 4096"):
        chunk.parse_header(SAMPLE, 0, POSITION + 512)


def test_a_blank_place_is_the_end_and_not_a_fault() -> None:
    assert chunk.header_bytes_at(bytes(chunk.FIXED.size), 0, POSITION) == 0


def test_a_count_from_the_disk_asks_for_no_more_than_a_chunk_may_have() -> None:
    damaged = bytearray(SAMPLE)
    damaged[10:12] = b"\xff\xff"
    with pytest.raises(CorruptData):
        chunk.header_bytes_at(bytes(damaged), 0, POSITION)


def test_entries_that_do_not_tile_the_payload_are_refused_though_the_crc_holds() -> None:
    overlapping = [chunk.ENTRY.pack(1, 0, 0, 1, start, 100, 1, 0) for start in (0, 50)]
    with pytest.raises(CorruptData, match="do not fit together"):
        chunk.parse_header(chunk.encode_header(0, 0, 0, overlapping, 150, digest=0), 0, 0)
    short = [chunk.ENTRY.pack(1, 0, 0, 1, 0, 100, 1, 0)]
    with pytest.raises(CorruptData, match="do not add up"):
        chunk.parse_header(chunk.encode_header(0, 0, 0, short, 150, digest=0), 0, 0)


def test_a_chunk_vouches_for_what_was_flushed_before_it() -> None:
    header = chunk.encode_header(POSITION, 0, 0, [chunk.ENTRY.pack(1, 1, 5, 0, 0, 0, 0, -1)], 0, 512, digest=0)
    assert chunk.parse_header(header, 0, POSITION).flushed_position == POSITION - 512
    assert chunk.parse_header(SAMPLE, 0, POSITION).flushed_position == 0, "it says nothing"


def test_a_run_is_given_up_in_place() -> None:
    runs = [(1, 10, 2, 61, 1, 5), (2, 20, 3, 70, 1, 6), (1, 12, 1, 80, 1, 7)]
    whole = header_of(runs) + b"batches"
    before = chunk.parse_header(whole, 0, POSITION)
    header = chunk.with_lost(whole, before, {1})
    assert len(header) == before.header_bytes
    after = chunk.parse_header(header, 0, POSITION)
    assert after.end == before.end
    kinds = [run.kind for run in after.runs()]
    assert kinds == [chunk.BATCHES, chunk.LOST, chunk.BATCHES]
    assert [run._replace(kind=0) for run in after.runs()] == list(before.runs())
    assert chunk.find_run(header, 0, POSITION, 2) == (after.end, 3, None)


@given(st.integers(chunk.header_bytes_for(1), chunk.CHUNK_BYTES_MAX))
def test_a_bridge_is_a_chunk_without_batches(size: int) -> None:
    bridge = chunk.parse_header(chunk.encode_bridge(POSITION, POSITION + size), 0, POSITION)
    assert (bridge.position, bridge.end, bridge.flushed_position) == (POSITION, POSITION + size, 0)
    assert [(run.kind, run.offset_count) for run in bridge.runs()] == [(chunk.LOST, 0)]


@pytest.mark.parametrize("count", [1, 3])
def test_a_chunk_of_the_version_without_a_digest_is_read_as_it_is(count: int) -> None:
    runs = [(number, 10, 2, 61, 1, 5) for number in range(count)]
    header = of_version_2(header_of(runs))
    assert chunk.header_bytes_at(header, 0, POSITION) == len(header) == chunk.header_bytes_for(count) - 4
    parsed = chunk.parse_header(header, 0, POSITION)
    assert (parsed.digest, parsed.header_bytes) == (None, len(header))
    assert [run.position for run in parsed.runs()] == [POSITION + len(header) + 61 * number for number in range(count)]
    end, _, run = chunk.find_run(header, 0, POSITION, count - 1)
    assert (end, run) == (parsed.end, list(parsed.runs())[-1])
    assert chunk.version_of(header, 0) is None
    lost = chunk.parse_header(chunk.with_lost(header, parsed, {0}), 0, POSITION)
    assert (lost.digest, lost.end, lost.runs()[0].kind) == (None, parsed.end, chunk.LOST)


def test_a_rotten_version_is_told_from_another_one() -> None:
    assert chunk.version_of(SAMPLE, 0) is None
    for bit in range(16):
        rotten = bytearray(SAMPLE)
        rotten[8 + bit // 8] ^= 1 << bit % 8
        assert chunk.version_of(rotten, 0) is None
    other = bytearray(SAMPLE)
    other[8:10] = b"\0\4"
    other[4:8] = b"\0\0\0\0"
    assert chunk.version_of(other, 0) == 4
    assert chunk.version_of(bytes(200), 0) is None
