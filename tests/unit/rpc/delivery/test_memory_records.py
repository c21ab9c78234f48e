"""Records of the memory of calls: what is stored comes back, and what cannot be read is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import CorruptData
from hutong.rpc.delivery.ids import SEQUENCE_MAX, CallId
from hutong.rpc.delivery.messages import (
    CLOSED,
    HORIZON,
    CallRecord,
    Change,
    Fingerprint,
    HorizonRecord,
    Known,
    SessionRecord,
)
from hutong.rpc.delivery.records import decode_change, encode_key, encode_record

times = st.integers(0, 2**48)
sessions = st.text("0123456789abcdef", min_size=32, max_size=32)
calls = st.builds(CallId, sessions, st.integers(0, SEQUENCE_MAX))
fingerprints = st.builds(Fingerprint, st.text(max_size=20), st.binary(max_size=16))
changes: st.SearchStrategy[Change] = st.one_of(
    st.tuples(
        calls, st.none() | st.builds(CallRecord, st.sampled_from(Known), times, st.binary(max_size=20), fingerprints)
    ),
    st.tuples(sessions, st.none() | st.builds(SessionRecord, st.integers(0, SEQUENCE_MAX) | st.just(CLOSED), times)),
    st.tuples(st.just(HORIZON), st.none() | st.builds(HorizonRecord, times)),
)


@given(changes)
def test_a_change_comes_back(change: Change) -> None:
    key, record = change
    assert decode_change(encode_key(key), encode_record(record)) == change


@given(st.binary(max_size=50) | changes.map(lambda change: encode_key(change[0])), st.binary(max_size=40))
def test_bytes_that_are_no_record_are_refused(key: bytes, value: bytes) -> None:
    try:
        decode_change(key, value)
    except CorruptData:
        return


def test_a_record_of_an_older_release_is_read() -> None:
    written = bytes.fromhex("83a56b6e6f776ea866696e6973686564a261740aa76f7574636f6d65c404646f6e65")
    key = encode_key(CallId("0" * 32, 7))
    assert decode_change(key, written) == (CallId("0" * 32, 7), CallRecord(Known.FINISHED, 10, b"done"))


@pytest.mark.parametrize("key", [b"", b"h/", b"s/", b"c/12/3", b"x/1", b"\xff"])
def test_keys_of_others_are_refused(key: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_change(key, b"")
