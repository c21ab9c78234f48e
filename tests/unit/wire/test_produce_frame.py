"""The short cut for Produce responses says what the general encoder says, byte for byte."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.wire.kafka.apis.k00_produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from hutong.wire.kafka.headers import encode_response_frame
from hutong.wire.kafka.produce_frame import encode_produce_response_frame

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PARTITIONS = st.builds(
    PartitionProduceResponse,
    index=INT32,
    error_code=st.sampled_from([0, 0, 0, 3, 87]),
    base_offset=INT64,
    log_append_time_ms=INT64,
    log_start_offset=INT64,
    error_message=st.none(),
)
TOPICS = st.builds(
    TopicProduceResponse,
    name=st.text(max_size=140),
    topic_id=st.binary(min_size=16, max_size=16),
    partition_responses=st.lists(PARTITIONS, min_size=0, max_size=2),
)
RESPONSES = st.builds(ProduceResponse, responses=st.lists(TOPICS, max_size=2), throttle_time_ms=INT32)


@given(st.integers(3, 13), INT32, RESPONSES)
def test_both_encoders_agree(version: int, correlation_id: int, response: ProduceResponse) -> None:
    short_cut = b"".join(encode_produce_response_frame(version, correlation_id, response))
    assert short_cut == b"".join(encode_response_frame(0, version, correlation_id, response))


@given(st.integers(9, 13), INT32, PARTITIONS, st.text(max_size=126))
def test_the_common_response_is_one_buffer(
    version: int, correlation_id: int, partition: PartitionProduceResponse, name: str
) -> None:
    partition.error_code = 0
    response = ProduceResponse([TopicProduceResponse(name, bytes(16), [partition])])
    frame = encode_produce_response_frame(version, correlation_id, response)
    assert frame == [b"".join(encode_response_frame(0, version, correlation_id, response))]
