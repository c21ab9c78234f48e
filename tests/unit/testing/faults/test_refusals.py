"""Answers that say nothing but an error, for every API that can be refused, in each of its versions."""

from typing import Any

import pytest

from hutong.testing.faults.refusals import REFUSABLE, refusal
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from hutong.wire.kafka.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from hutong.wire.kafka.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from hutong.wire.kafka.apis.k10_find_coordinator import FindCoordinatorRequest
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from hutong.wire.kafka.apis.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest
from hutong.wire.kafka.apis.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from hutong.wire.kafka.apis.k42_delete_groups import DeleteGroupsRequest
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.headers import decode_request_header, decode_response_header, encode_request_frame
from hutong.wire.kafka.registry import APIS
from hutong.wire.kafka.schema import message_info, rows_of

CODE = 29
CORRELATION_ID = 77
TOPIC_ID = b"0123456789abcdef"

REQUESTS: list[Any] = [
    ProduceRequest(
        acks=-1, topic_data=[TopicProduceData("t", TOPIC_ID, [PartitionProduceData(i, None) for i in (0, 4)])]
    ),
    FetchRequest(topics=[FetchTopic("t", TOPIC_ID, [FetchPartition(i, high_watermark=9) for i in (0, 4)])]),
    ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(i) for i in (0, 4)])]),
    OffsetCommitRequest(
        topics=[OffsetCommitRequestTopic("t", TOPIC_ID, [OffsetCommitRequestPartition(i, 7) for i in (0, 4)])]
    ),
    OffsetFetchRequest(
        "g",
        [OffsetFetchRequestTopic("t", [0, 4])],
        [OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", TOPIC_ID, [0, 4])])],
    ),
    FindCoordinatorRequest("g", 0, ["g"]),
    JoinGroupRequest("g", protocols=[JoinGroupRequestProtocol("range", b"")]),
    HeartbeatRequest("g"),
    LeaveGroupRequest("g", members=[MemberIdentity("m")]),
    SyncGroupRequest("g"),
    CreateTopicsRequest([CreatableTopic("t", configs=[CreatableTopicConfig("retention.ms", "1")])]),
    DeleteTopicsRequest([DeleteTopicState("t", TOPIC_ID)], ["t"]),
    DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(i) for i in (0, 4)])]),
    InitProducerIdRequest(None),
    CreatePartitionsRequest([CreatePartitionsTopic("t", 3)]),
    DeleteGroupsRequest(["g"]),
]
CASES = [(request, version) for request in REQUESTS for version in APIS[message_info(type(request)).api_key].versions]


def refused(request: Any, version: int, code: int = CODE) -> list[Any] | None:
    frame = b"".join(encode_request_frame(request, version, CORRELATION_ID, "c"))[4:]
    header, body_at = decode_request_header(frame)
    return refusal(frame, header, body_at, code)


def codes_in(table: Any, version: int) -> list[int]:
    """Every error code that an answer of this version carries, but the one of a fetch's session."""
    found: list[int] = []
    for name, row in rows_of(type(table)):
        if version not in row.versions or (name == "error_code" and isinstance(table, FetchResponse)):
            continue
        value = getattr(table, name)
        if name == "error_code":
            found.append(value)
        for entry in value if isinstance(value, list) else ():
            found += codes_in(entry, version) if hasattr(type(entry), "__dataclass_fields__") else []
    return found


def test_every_api_that_can_be_refused_is_tried() -> None:
    assert {message_info(type(request)).api_key for request in REQUESTS} == set(REFUSABLE.values())


@pytest.mark.parametrize(("request_", "version"), CASES, ids=[f"{message_info(type(r)).name}-{v}" for r, v in CASES])
def test_the_answer_carries_the_code_and_nothing_else(request_: Any, version: int) -> None:
    api_key = message_info(type(request_)).api_key
    frames = refused(request_, version)
    assert frames is not None
    frame = b"".join(frames)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, body_at = decode_response_header(frame[4:], api_key, version)
    assert correlation_id == CORRELATION_ID
    answer = codecs.decode_response(api_key, version, frame[4:], body_at)
    assert set(codes_in(answer, version)) == {CODE}


def test_partitions_are_named_as_they_were_asked_for() -> None:
    for request, version in [(REQUESTS[0], 9), (REQUESTS[1], 12), (REQUESTS[2], 5), (REQUESTS[3], 8)]:
        api_key = message_info(type(request)).api_key
        frame = b"".join(refused(request, version) or ())[4:]
        _, body_at = decode_response_header(frame, api_key, version)
        answer = codecs.decode_response(api_key, version, frame, body_at)
        (topic,) = getattr(answer, "responses", None) or answer.topics
        partitions = getattr(topic, "partition_responses", None) or topic.partitions
        names = [getattr(part, "index", None) or getattr(part, "partition_index", 0) for part in partitions]
        assert names == [0, 4]
        assert {part.error_code for part in partitions} == {CODE}
        assert getattr(topic, "name", None) == "t" or topic.topic == "t"


def test_a_produce_that_asked_for_no_answer_has_none() -> None:
    assert refused(ProduceRequest(acks=0, topic_data=[]), 9) is None
