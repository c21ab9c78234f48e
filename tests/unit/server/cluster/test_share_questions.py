"""Questions about share groups' progress come back as they were sent, and other bytes are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.cluster.peers.port import PeerMessage
from hutong.foundation.errors import ProtocolError
from hutong.groups.share.delivery.progress import ProgressWrite
from hutong.groups.share.records import PartitionKey, ProgressSummary, encode_group_key
from hutong.server.cluster import share_questions as questions

KEYS = st.builds(PartitionKey, st.text(max_size=20), st.binary(min_size=16, max_size=16), st.integers(0, 2**31 - 1))
OFFSETS = st.integers(0, 2**62)
KEY = PartitionKey("g", bytes(16), 3)


@given(KEYS, st.integers(-1, 2**62), st.binary(max_size=50))
def test_reads_and_writes(key: PartitionKey, before: int, value: bytes) -> None:
    assert questions.decode_read(questions.encode_read(key)) == key
    write = ProgressWrite(key, before, value)
    assert questions.decode_write(questions.encode_write(write)) == write
    assert questions.decode_found(questions.encode_found(value)) == value
    assert questions.decode_found(questions.encode_found(None)) is None


@given(st.dictionaries(KEYS, OFFSETS | st.none()), st.dictionaries(KEYS, st.builds(ProgressSummary, OFFSETS, OFFSETS)))
def test_lists(offsets: dict[PartitionKey, int | None], found: dict[PartitionKey, ProgressSummary]) -> None:
    assert questions.decode_replace(questions.encode_replace(offsets)) == offsets
    assert questions.decode_summaries(questions.encode_summaries(found)) == found


@pytest.mark.parametrize("cut", range(1, 30))
def test_what_is_cut_off_is_refused(cut: int) -> None:
    whole = questions.encode_replace({KEY: 7})
    with pytest.raises(ProtocolError):
        questions.decode_replace(PeerMessage(whole.code, whole.fields, whole.body[:-cut]))


def test_what_is_no_question_is_refused() -> None:
    write = questions.encode_write(ProgressWrite(KEY, 1, b""))
    with pytest.raises(ProtocolError):
        questions.decode_write(PeerMessage(write.code, {"before": "x"}, write.body))
    with pytest.raises(ProtocolError):
        questions.decode_read(PeerMessage(0, {}, encode_group_key("g")))
    with pytest.raises(ProtocolError):
        questions.decode_read(PeerMessage(0, {}, b"\0\1\0"))
