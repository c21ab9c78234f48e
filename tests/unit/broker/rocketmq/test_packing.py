"""Messages packed in one pass are those that the general encoder of records makes, to the byte."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hutong.broker.rocketmq.records.packing import packed_batch
from hutong.broker.rocketmq.records.translation import record_of
from hutong.wire.kafka.batch.records import build_batch
from hutong.wire.rocketmq.messages import Host, StoredMessage

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
# Also without values, without names, twice, empty, and with several keys.
PIECES = st.sampled_from(["KEYS", "TAGS", "rocketmq", "a", "k 1", " ", "\x01", "\x02", "é", "TOMBSTONE"])
PROPERTIES = st.lists(PIECES, max_size=14).map("".join) | st.text(st.characters(exclude_categories=["Cs"]))
MESSAGES = st.builds(
    StoredMessage,
    st.just(""),
    st.just(0),
    st.just(0),
    st.just(0),
    st.binary(max_size=200) | st.integers(60, 70_000).map(bytes),
    PROPERTIES,
    INT32,
    INT32,
    INT64,
    st.builds(Host, st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), INT32),
    reconsume_times=INT32,
    prepared_offset=INT64,
)


@given(st.lists(MESSAGES, min_size=1, max_size=4), st.integers(0, 2**62))
def test_packed_messages_have_the_bytes_of_the_encoder(messages: list[StoredMessage], stored_ms: int) -> None:
    messages = [replace(message, stored_ms=stored_ms) for message in messages]
    assert packed_batch(messages) == build_batch([record_of(message) for message in messages])
