"""Records of groups come back as they were written, in Kafka's own layout."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import CorruptData
from hutong.groups.classic.records import GroupRecord, MemberRecord, decode_group, encode_group
from hutong.groups.offsets.records import StoredOffset, decode_offset, encode_offset
from hutong.groups.record_keys import GroupKey, OffsetKey, decode_key, encode_group_key, encode_offset_key

words = st.text(max_size=40)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
members = st.builds(
    MemberRecord, words, st.none() | words, words, words, int32s, int32s, st.binary(max_size=60), st.binary(max_size=60)
)
groups = st.builds(
    GroupRecord, words, int32s, st.none() | words, st.none() | words, int64s, st.lists(members, max_size=3)
)


@given(words, words, int32s)
def test_keys_come_back(group_id: str, topic: str, partition: int) -> None:
    key = OffsetKey(group_id, topic, partition)
    assert decode_key(encode_offset_key(key)) == key
    assert decode_key(encode_group_key(GroupKey(group_id))) == GroupKey(group_id)


@given(int64s, int32s, words, int64s)
def test_offsets_come_back(offset: int, leader_epoch: int, metadata: str, committed_at_ms: int) -> None:
    committed = StoredOffset(offset, leader_epoch, metadata, committed_at_ms)
    assert decode_offset(encode_offset(committed)) == committed


@given(int64s, words, int64s, st.integers(0, 2**63 - 1))
def test_offsets_with_their_own_expiry_come_back(offset: int, metadata: str, at_ms: int, expires_at_ms: int) -> None:
    committed = StoredOffset(offset, -1, metadata, at_ms, expires_at_ms)
    assert decode_offset(encode_offset(committed)) == committed


@given(groups)
def test_groups_come_back(record: GroupRecord) -> None:
    assert decode_group(encode_group(record)) == record


def test_the_layout_is_kafkas() -> None:
    """As Kafka's `OffsetCommitKey` 1 and `OffsetCommitValue` 3 lay them out."""
    assert encode_offset_key(OffsetKey("g", "topic", 3)) == b"\0\1\0\1g\0\5topic\0\0\0\3"
    value = encode_offset(StoredOffset(7, 2, "note", 1))
    assert value == b"\0\3" + (7).to_bytes(8, "big") + (2).to_bytes(4, "big") + b"\0\4note" + (1).to_bytes(8, "big")
    assert encode_group_key(GroupKey("g")) == b"\0\2\0\1g"


@given(groups, st.data())
def test_what_is_cut_short_is_corrupt(record: GroupRecord, data: st.DataObject) -> None:
    encoded = encode_group(record)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(CorruptData):
        decode_group(encoded[:cut])


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\7\0\0", b"\0\1\0\5gr", b"\0\2\xff\xff"])
def test_a_key_that_makes_no_sense_is_corrupt(key: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_key(key)


@pytest.mark.parametrize("value", [b"", b"\0\0" + bytes(30), b"\0\3" + bytes(8)])
def test_an_offset_that_makes_no_sense_is_corrupt(value: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_offset(value)


def test_words_that_are_not_text_are_corrupt() -> None:
    with pytest.raises(CorruptData):
        decode_key(b"\0\2\0\2\xff\xfe")
