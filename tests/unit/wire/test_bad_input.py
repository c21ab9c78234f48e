"""Whatever the bytes, a decoder returns a message or raises ProtocolError, and never allocates what a length claims."""

import struct
import tracemalloc
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.messages import EVERY_MESSAGE, decode, encode, fill, flat, name_of

from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k01_fetch import FetchRequest
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k18_api_versions import ApiVersionsResponse
from hutong.wire.kafka.apis.k75_describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.varint import uvarint

CUTS_MAX = 250
MUTATIONS = 60
EVERY = pytest.mark.parametrize("message", EVERY_MESSAGE, ids=name_of)


def filled_bytes(message: tuple[type[Any], int]) -> bytes:
    """A sample with something in it, but small."""
    table, version = message
    samples = [encode(fill(table, version, Random(seed)), version) for seed in range(4)]
    return min(samples, key=lambda sample: abs(len(sample) - CUTS_MAX))


@EVERY
def test_every_truncation_is_refused(message: tuple[type[Any], int]) -> None:
    table, version = message
    data = filled_bytes(message)
    step = max(1, len(data) // CUTS_MAX)
    for size in [*range(min(len(data), CUTS_MAX // 2)), *range(0, len(data), step)]:
        with pytest.raises(ProtocolError):
            decode(table, version, data[:size])


@EVERY
def test_trailing_bytes_are_refused_in_responses_and_ignored_in_requests(message: tuple[type[Any], int]) -> None:
    table, version = message
    data = filled_bytes(message)
    if table.__name__.endswith("Request"):
        assert flat(decode(table, version, data + b"\0"), version) == flat(decode(table, version, data), version)
    else:
        with pytest.raises(ProtocolError):
            decode(table, version, data + b"\0")


@EVERY
def test_only_protocol_errors_escape_from_mutated_bytes(message: tuple[type[Any], int]) -> None:
    table, version = message
    random = Random(f"{table.__name__}{version}")
    original = filled_bytes(message)
    for _ in range(MUTATIONS):
        data = bytearray(original)
        for _ in range(random.randint(1, 3)):
            if data:
                data[random.randrange(len(data))] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
        try:
            read = decode(table, version, bytes(data))
        except ProtocolError:
            continue
        again = decode(table, version, encode(read, version))
        assert repr(flat(again, version)) == repr(flat(read, version))  # a NaN is not equal to itself


@given(data=st.binary(max_size=80), message=st.sampled_from(EVERY_MESSAGE))
def test_only_protocol_errors_escape_from_any_bytes(data: bytes, message: tuple[type[Any], int]) -> None:
    with suppress(ProtocolError):
        decode(*message, data)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_every_kind_of_buffer_is_read(wrap: Any) -> None:
    request = ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=[PartitionProduceData(0)])])
    request.topic_data[0].partition_data[0].records = memoryview(b"batch")
    read = codecs.decode_request(0, 9, wrap(b"skip" + encode(request, 9)), offset=4)
    assert flat(read, 9) == flat(request, 9)
    assert isinstance(read.topic_data[0].partition_data[0].records, memoryview)


def test_records_are_not_copied() -> None:
    request = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0)])])
    request.topic_data[0].partition_data[0].records = memoryview(b"batch")
    frame = bytearray(encode(request, 9))
    records = codecs.decode_request(0, 9, frame).topic_data[0].partition_data[0].records
    frame[frame.index(b"batch")] = ord("m")
    assert bytes(records) == b"match"
    kept = memoryview(b"kept")
    request.topic_data[0].partition_data[0].records = kept
    assert any(buffer is kept for buffer in codecs.encode_request(request, 9))


@pytest.mark.parametrize("count", [2**31 - 1, 1_000_000, 3])
def test_array_counts_beyond_the_bytes_are_refused_before_anything_is_built(count: int) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match=r"MetadataRequest.topics cannot hold"):
            codecs.decode_request(3, 8, struct.pack(">i", count) + b"\0\0\0\0")
        with pytest.raises(ProtocolError, match=r"MetadataRequest.topics cannot hold"):
            codecs.decode_request(3, 9, uvarint(count + 1) + b"\0\0\0\0")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_lengths_beyond_the_bytes_are_refused() -> None:
    for length in (5, 2**31 - 1, 2**32 - 2):
        with pytest.raises(ProtocolError):
            codecs.decode_request(12, 4, uvarint(length + 1) + b"abcd")
    with pytest.raises(ProtocolError):
        codecs.decode_request(12, 0, struct.pack(">h", 32767) + b"abcd")


@pytest.mark.parametrize("body", [b"\xff\xff" + bytes(6), b"\xff\xfe" + bytes(6), struct.pack(">h", -32768) + bytes(6)])
def test_null_and_negative_lengths_are_refused_where_a_value_must_be(body: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"HeartbeatRequest.group_id has no length"):
        codecs.decode_request(12, 0, body)


def test_compact_null_is_refused_where_a_value_must_be() -> None:
    with pytest.raises(ProtocolError, match=r"HeartbeatRequest.group_id has no length"):
        codecs.decode_request(12, 4, bytes(8))
    with pytest.raises(ProtocolError, match=r"HeartbeatRequest.group_id has no length"):
        codecs.decode_request(12, 4, b"\x80\0" + bytes(8))  # zero, written in two bytes


def test_negative_lengths_below_null_are_refused_where_null_may_be() -> None:
    null = encode(MetadataRequest(topics=None), 1)
    assert codecs.decode_request(3, 1, null).topics is None
    with pytest.raises(ProtocolError, match=r"MetadataRequest.topics has no length"):
        codecs.decode_request(3, 1, b"\xff\xff\xff\xfe")


@pytest.mark.parametrize("text", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"a\xc0\x80"])
def test_text_that_is_not_utf8_is_refused(text: bytes) -> None:
    flexible = uvarint(len(text) + 1) + text + bytes(4) + b"\x01\x00\x00"
    with pytest.raises(ProtocolError, match="utf-8"):
        codecs.decode_request(12, 4, flexible)
    with pytest.raises(ProtocolError, match="utf-8"):
        codecs.decode_request(12, 0, struct.pack(">h", len(text)) + text + bytes(6))


@pytest.mark.parametrize("byte", range(256))
def test_every_byte_but_zero_is_true(byte: int) -> None:
    data = bytearray(encode(MetadataRequest(topics=[]), 4))
    data[-1] = byte
    assert codecs.decode_request(3, 4, data).allow_auto_topic_creation is (byte != 0)


def test_varints_are_bounded() -> None:
    with pytest.raises(ProtocolError, match="varint"):
        codecs.decode_request(12, 4, b"\xff" * 20)
    with pytest.raises(ProtocolError, match="varint"):
        codecs.decode_request(12, 4, b"\xff\xff\xff\xff\x10" + bytes(20))


def test_unknown_tagged_fields_are_skipped() -> None:
    request = HeartbeatRequest("g", 1, "m")
    body = encode(request, 4)
    assert body[-1] == 0
    many = uvarint(127) + b"".join(uvarint(tag) + uvarint(2 * tag) + bytes(2 * tag) for tag in range(127))
    for tags in (b"\x01\x05\x03abc", b"\x02\x00\x00\x7f\x01a", many):
        assert codecs.decode_request(12, 4, body[:-1] + tags) == request


@pytest.mark.parametrize("tags", [b"\x01", b"\x01\x05", b"\x01\x05\x04abc", b"\xff\xff\xff\xff\x0f\x00\x00"])
def test_tagged_fields_beyond_the_bytes_are_refused(tags: bytes) -> None:
    body = encode(HeartbeatRequest("g", 1, "m"), 4)
    with pytest.raises(ProtocolError):
        codecs.decode_request(12, 4, body[:-1] + tags)


def test_tagged_fields_are_bounded() -> None:
    many = uvarint(128) + b"".join(uvarint(tag) + b"\0" for tag in range(50, 178))
    for key, body in ((12, encode(HeartbeatRequest("g", 1, "m"), 4)), (1, encode(FetchRequest(), 12))):
        version = 4 if key == 12 else 12
        with pytest.raises(ProtocolError, match="tagged fields"):
            codecs.decode_request(key, version, body[:-1] + many)


def test_a_known_tagged_field_fills_its_length() -> None:
    body = encode(ApiVersionsResponse(finalized_features_epoch=7), 3)
    assert codecs.decode_response(18, 3, body).finalized_features_epoch == 7
    assert body.endswith(b"\x01\x01\x08" + (7).to_bytes(8, "big"))
    for size in (7, 9):
        with pytest.raises(ProtocolError, match="does not fill its tagged field"):
            codecs.decode_response(18, 3, body[:-9] + bytes([size]) + bytes(9))


def test_known_and_unknown_tagged_fields_mix() -> None:
    body = encode(ApiVersionsResponse(), 3)
    tags = b"\x03\x01\x08" + (7).to_bytes(8, "big") + b"\x03\x01\x01" + b"\x09\x02zz"
    read = codecs.decode_response(18, 3, body[:-1] + tags)
    assert (read.finalized_features_epoch, read.zk_migration_ready) == (7, True)


def test_a_nullable_struct_has_a_byte_of_presence() -> None:
    for cursor in (None, Cursor("t", 4)):
        request = DescribeTopicPartitionsRequest(cursor=cursor)
        assert codecs.decode_request(75, 0, encode(request, 0)) == request


def test_the_error_names_message_and_version() -> None:
    with pytest.raises(ProtocolError, match="JoinGroupRequest v5"):
        codecs.decode_request(11, 5, encode(JoinGroupRequest("g"), 5)[:-1])


def test_null_topics_and_empty_topics_differ() -> None:
    for topics in (None, [], [MetadataRequestTopic(name="t")]):
        assert codecs.decode_request(3, 9, encode(MetadataRequest(topics=topics), 9)).topics == topics
