"""Records of the coordinator have Kafka's own layout, and come back whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import CorruptData
from hutong.transactions.messages import TransactionRecord
from hutong.transactions.records import decode_key, decode_record, encode_key, encode_record
from hutong.transactions.states import TransactionState

epochs = st.integers(-1, 2**15 - 1)
ids = st.integers(-1, 2**63 - 1)
times = st.integers(-1, 2**62)
partitions = st.frozensets(st.tuples(st.text(max_size=8), st.integers(0, 2**31 - 1)), max_size=8)


@given(
    st.builds(
        TransactionRecord,
        producer_id=ids,
        producer_epoch=epochs,
        timeout_ms=st.integers(1, 2**31 - 1),
        state=st.sampled_from([state for state in TransactionState if state is not TransactionState.EMPTY]),
        partitions=partitions,
        started_at_ms=times,
        updated_at_ms=times,
        previous_producer_id=ids,
        next_producer_id=ids,
        client_version=st.integers(0, 2),
    )
)
def test_a_record_comes_back(record: TransactionRecord) -> None:
    assert decode_record(encode_record(record)) == record


@given(st.text(max_size=50))
def test_a_key_comes_back(transactional_id: str) -> None:
    assert decode_key(encode_key(transactional_id)) == transactional_id


def test_the_layout_is_kafkas() -> None:
    record = TransactionRecord(
        producer_id=5, producer_epoch=2, timeout_ms=60_000, state=TransactionState.ONGOING,
        partitions=frozenset({("t", 1)}), started_at_ms=7, updated_at_ms=8, previous_producer_id=5, client_version=2,
    )  # fmt: skip
    assert encode_key("app") == b"\0\0\0\3app"
    assert encode_record(record) == (
        b"\0\1"  # version
        + (5).to_bytes(8, "big")
        + b"\0\2"  # epoch
        + (60_000).to_bytes(4, "big")
        + b"\1"  # Ongoing
        + b"\2\2t\2\0\0\0\1\0"  # one topic with one partition
        + (8).to_bytes(8, "big")
        + (7).to_bytes(8, "big")
        + b"\2\0\x08" + (5).to_bytes(8, "big") + b"\2\2\0\2"  # two tagged fields: previous id, client's version
    )  # fmt: skip


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\7", b"\0\1\0\0", b"\0\1" + bytes(14) + b"\x63" + bytes(20)])
def test_what_is_damaged_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_record(data)
    with pytest.raises(CorruptData):
        decode_key(b"\0\1" + data)
