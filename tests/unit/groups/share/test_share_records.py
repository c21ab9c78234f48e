"""Records of share groups come back as they were written, and other bytes are reported."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hutong.foundation.errors import CorruptData
from hutong.groups.share.delivery.window import DONE, OffsetRun, ShareRecordState
from hutong.groups.share.records import (
    NO_PROGRESS,
    PartitionKey,
    ProgressSummary,
    decode_group,
    decode_key,
    decode_progress,
    encode_group,
    encode_group_key,
    encode_partition_key,
    encode_progress,
    in_offsets,
    out_of_offsets,
    summary_of,
    version_of,
)

LENGTHS = st.lists(
    st.tuples(st.integers(1, 2**40), st.sampled_from(list(ShareRecordState)), st.integers(1, 100), st.booleans()),
    max_size=20,
)


@settings(deadline=None)
@given(st.text(max_size=20), st.binary(min_size=16, max_size=16), st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_keys_and_groups(group_id: str, topic_id: bytes, partition: int, epoch: int) -> None:
    key = PartitionKey(group_id, topic_id, partition)
    assert decode_key(encode_partition_key(key)) == key
    assert decode_key(encode_group_key(group_id)) == group_id
    assert decode_group(encode_group(epoch)) == epoch


@settings(deadline=None)
@given(st.integers(0, 2**62), st.integers(1, 2**62), LENGTHS)
def test_progress(start_offset: int, version: int, lengths: list[tuple[int, ShareRecordState, int, bool]]) -> None:
    runs, offset = [], start_offset
    for length, state, deliveries, is_rejected in lengths:
        member_id = "?" if state is ShareRecordState.ACQUIRED else ""
        count = 0 if state in DONE else deliveries
        runs.append(OffsetRun(offset, offset + length - 1, state, count, member_id, is_rejected=is_rejected))
        offset += length
    data = encode_progress(start_offset, runs, version)
    progress = decode_progress(data)
    assert (progress.start_offset, list(progress.runs), progress.version) == (start_offset, runs, version)
    assert version_of(data) == version
    done = sum(len(run) for run in runs if run.state in DONE)
    assert summary_of(data) == ProgressSummary(start_offset, done)


def test_progress_of_an_older_version_is_read() -> None:
    data = b"\0\0" + (7).to_bytes(8, "big") + b"\x04\x02\x00"
    progress = decode_progress(data)
    assert list(progress.runs) == [OffsetRun(7, 8, ShareRecordState.ACKNOWLEDGED)]
    assert (progress.start_offset, progress.version, version_of(data), version_of(None)) == (7, 0, 0, NO_PROGRESS)


def test_a_group_has_another_key_among_the_other_groups() -> None:
    key = encode_group_key("g")
    assert in_offsets(key) == b"\0\x0bg"
    assert out_of_offsets(in_offsets(key)) == key


@pytest.mark.parametrize(
    "data", [b"", b"\0\0", b"\0\1" + bytes(8), b"\0\2" + bytes(16), bytes(10) + b"\x02", bytes(10) + b"\x02\x07\x02"]
)
def test_what_is_no_progress_is_told(data: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_progress(data)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\2", b"\0\1" + bytes(4), b"\0\0\xff"])
def test_what_is_no_key_is_told(data: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_key(data)


@pytest.mark.parametrize("data", [b"", b"\0\1\0\0\0\0", bytes(7)])
def test_what_is_no_group_is_told(data: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_group(data)
