import struct

import pytest
from kafka.protocol.api_header import RequestHeader as TheirRequestHeader
from tests.unit.wire.messages import EVERY_MESSAGE, api_of, name_of

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.apis.k00_produce import ProduceRequest, ProduceResponse
from hutong.wire.kafka.apis.k01_fetch import FetchableTopicResponse, FetchResponse, PartitionData
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_frame,
    encode_response_frame,
)
from hutong.wire.kafka.registry import UnknownApi, UnsupportedVersion


def unframed(buffers: list[Buffer]) -> bytes:
    data = b"".join(buffers)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    return data[4:]


REQUESTS = [message for message in EVERY_MESSAGE if api_of(message[0]).request is message[0]]
RESPONSES = [message for message in EVERY_MESSAGE if api_of(message[0]).response is message[0]]


@pytest.mark.parametrize("message", REQUESTS, ids=name_of)
def test_request_frames_come_back(message: tuple[type, int]) -> None:
    table, version = message
    for client_id in (None, "", "rdkafka", "胡同"):
        frame = unframed(encode_request_frame(table(), version, 77, client_id))
        header, position = decode_request_header(frame)
        assert header == RequestHeader(api_of(table).key, version, 77, client_id)
        assert codecs.decode_request(header.api_key, header.api_version, frame, position) == table()


@pytest.mark.parametrize("message", RESPONSES, ids=name_of)
def test_response_frames_come_back(message: tuple[type, int]) -> None:
    table, version = message
    key = api_of(table).key
    frame = unframed(encode_response_frame(key, version, -5, table()))
    correlation_id, position = decode_response_header(frame, key, version)
    assert correlation_id == -5
    assert codecs.decode_response(key, version, frame, position) == table()


@pytest.mark.parametrize(("version", "flexible"), [(8, False), (9, True)])
def test_kafka_python_writes_the_same_header(version: int, flexible: bool) -> None:
    theirs = TheirRequestHeader(request_api_key=0, request_api_version=version, correlation_id=9, client_id="c")
    frame = unframed(encode_request_frame(ProduceRequest(), version, 9, "c"))
    assert frame.startswith(theirs.encode(flexible=flexible))


def test_tagged_fields_of_a_header_are_skipped() -> None:
    frame = struct.pack(">hhih1s", 12, 4, 1, 1, b"c") + b"\x01\x63\x02zz" + b"body"
    assert decode_request_header(frame) == (RequestHeader(12, 4, 1, "c"), len(frame) - 4)
    assert decode_response_header(b"\0\0\0\1\x01\x63\x02zzbody", 12, 4) == (1, 9)


@pytest.mark.parametrize("version", range(5))
def test_api_versions_is_answered_with_header_version_0(version: int) -> None:
    buffers = encode_response_frame(18, version, 3, ApiVersionsResponse())
    assert unframed(buffers) == b"\0\0\0\3" + b"".join(codecs.encode_response(ApiVersionsResponse(), version))


def test_api_versions_in_an_unknown_version_can_be_answered() -> None:
    frame = struct.pack(">hhih1s", 18, 99, 3, 1, b"c") + b"\0" + b"whatever the future holds"
    header, position = decode_request_header(frame)
    assert header == RequestHeader(18, 99, 3, "c")
    with pytest.raises(UnsupportedVersion) as refused:
        codecs.decode_request(18, 99, frame, position)
    assert (refused.value.api_key, refused.value.api_version) == (18, 99)
    answer = encode_response_frame(18, 0, 3, ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION))
    assert unframed(answer) == bytes.fromhex("00000003 0023 00000000")


def test_unknown_keys_and_versions_are_protocol_errors() -> None:
    with pytest.raises(UnknownApi):
        decode_request_header(struct.pack(">hhih", 999, 0, 1, -1))
    for version in (-1, 2, 14):
        with pytest.raises(UnsupportedVersion):
            codecs.request_decoder(0, version)
    assert issubclass(UnknownApi, ProtocolError)
    assert issubclass(UnsupportedVersion, ProtocolError)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\x12\0\3\0\0\0\1\0",
        struct.pack(">hhih", 18, 0, 1, -2),
        struct.pack(">hhih", 18, 0, 1, 1),
        struct.pack(">hhih1s", 18, 0, 1, 1, b"\xff"),
        struct.pack(">hhih", 18, 3, 1, -1),
        struct.pack(">hhih", 18, 3, 1, -1) + b"\x01\x00",
        struct.pack(">hhih", 18, 3, 1, -1) + b"\x01\x00\x05a",
    ],
)
def test_broken_request_headers_are_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError, match="request header"):
        decode_request_header(frame)


@pytest.mark.parametrize("frame", [b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\1\x01", b"\0\0\0\1\x01\0\x09"])
def test_broken_response_headers_are_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError, match="response header"):
        decode_response_header(frame, 12, 4)


def test_fetched_records_pass_uncopied() -> None:
    batches: list[Buffer] = [memoryview(b"one"), memoryview(b"two")]
    partitions = [PartitionData(0, records=batches), PartitionData(1, records=None), PartitionData(2, records=b"three")]
    response = FetchResponse(responses=[FetchableTopicResponse("t", partitions=partitions)])
    for version in (4, 11, 12, 18):
        buffers = encode_response_frame(1, version, 1, response)
        assert [buffer for buffer in buffers if buffer in (*batches, b"three")] == [*batches, b"three"]
        assert all(any(buffer is batch for buffer in buffers) for batch in batches)
        frame = unframed(buffers)
        read = codecs.decode_response(1, version, frame, decode_response_header(frame, 1, version)[1])
        assert [partition.records for partition in read.responses[0].partitions] == [b"onetwo", None, b"three"]


def test_a_response_without_records_is_one_buffer() -> None:
    assert len(encode_response_frame(0, 9, 1, ProduceResponse())) == 1
    assert len(encode_request_frame(HeartbeatRequest(), 4, 1, "c")) == 2


def test_truncated_request_frames_are_refused() -> None:
    def read(frame: bytes) -> ApiVersionsRequest:
        header, position = decode_request_header(frame)
        request: ApiVersionsRequest = codecs.decode_request(header.api_key, header.api_version, frame, position)
        return request

    whole = unframed(encode_request_frame(ApiVersionsRequest("librdkafka", "2.15"), 3, 1, "c"))
    assert read(whole) == ApiVersionsRequest("librdkafka", "2.15")
    for size in range(len(whole)):
        with pytest.raises(ProtocolError):
            read(whole[:size])
