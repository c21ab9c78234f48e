"""Cutting a run: the same whole batches as picking them one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import CorruptData
from hutong.journal.format.batches import cut
from hutong.wire.kafka.batch.records import Record, build_batch


def batches_of(counts: list[int]) -> list[tuple[int, int, bytes]]:
    found, offset = [], 100
    for count in counts:
        batch = build_batch([Record(value=bytes(count))] * count, base_offset=offset)
        found.append((offset, offset + count, batch))
        offset += count
    return found


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=6),
    st.integers(95, 125),
    st.integers(95, 125),
    st.integers(0, 600),
    st.booleans(),
)
def test_a_cut_takes_whole_batches_within_the_limits(
    counts: list[int], offset: int, limit: int, max_bytes: int, at_least_one: bool
) -> None:
    batches = batches_of(counts)
    expected = b""
    for base_offset, end_offset, batch in batches:
        if end_offset <= offset:
            continue
        if base_offset >= limit:
            break
        if len(expected) + len(batch) > max_bytes and not (at_least_one and not expected):
            break
        expected += batch
    run = memoryview(b"".join(batch for _, _, batch in batches))
    assert cut(run, offset, limit, max_bytes, at_least_one) == expected


def test_a_length_that_leads_out_of_the_run_is_not_followed() -> None:
    run = bytearray(b"".join(batch for _, _, batch in batches_of([1, 1])))
    for damage in (b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff"):
        run[8:12] = damage
        with pytest.raises(CorruptData):
            cut(memoryview(bytes(run)), 101, 200, 10_000, True)
    with pytest.raises(CorruptData):
        cut(memoryview(bytes(run)[:30]), 0, 200, 10_000, True)
