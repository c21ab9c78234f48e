"""Requests for the controller that reach another node."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.cluster_scene import NEXT, ClusterScene, cluster_scene
from tests.unit.broker.wire_node import batch_of

from hutong.broker.dispatch.forwarded import ForwardedRequests
from hutong.broker.handling.listeners import Listener, SecurityProtocol
from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import Expired, HutongError, Refused
from hutong.security.principals import USER, Principal
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from hutong.wire.kafka.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.headers import decode_response_header, encode_request_frame
from hutong.wire.kafka.schema import message_info

TOPIC, BROKER, LOGGER = 2, 4, 8
LISTENER = Listener("PLAINTEXT", SecurityProtocol.PLAINTEXT, "127.0.0.1", 9092)


class Remote:
    """The other side, and what it was given."""

    def __init__(self, scene: ClusterScene) -> None:
        self.later: list[Any] = []
        self.requests = ForwardedRequests(scene.broker, LISTENER, self.later.append)
        scene.cluster.remote = self.requests

    def ask(self, request: Any, version: int, principal: Principal | None = None) -> list[Any]:
        """The outcomes so far: a decoded response or an error."""
        frame = b"".join(encode_request_frame(request, version, 9, "other"))[4:]
        outcomes: list[Any] = []

        def then(outcome: bytes | HutongError) -> None:
            if isinstance(outcome, HutongError) or not outcome:
                outcomes.append(outcome)
                return
            assert int.from_bytes(outcome[:4], "big") == len(outcome) - 4
            key = message_info(type(request)).api_key
            correlation_id, offset = decode_response_header(outcome[4:], key, version)
            assert correlation_id == 9
            outcomes.append(codecs.decode_response(key, version, outcome[4:], offset))

        session = self.requests.session_of(principal or Principal(USER, "alice"), "10.0.0.9")
        self.requests.handle_frame(frame, session, then)
        return outcomes


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClusterScene]:
    async with cluster_scene(tmp_path, monkeypatch) as made:
        yield made


async def test_the_controller_answers_for_the_node_that_was_asked(scene: ClusterScene) -> None:
    Remote(scene)
    scene.cluster.controller_id = NEXT
    await scene.client.create("orders", 2)
    assert scene.broker.topics.get("orders") is not None
    response = await scene.client.ask(DeleteTopicsRequest(topics=[DeleteTopicState("orders")], timeout_ms=1000), 6)
    assert [result.error_code for result in response.responses] == [0]
    assert len(scene.cluster.forwarded) == 2
    assert {session.address for _, session in scene.cluster.forwarded} == {"127.0.0.1"}


async def test_the_controller_itself_forwards_nothing(scene: ClusterScene) -> None:
    await scene.client.create("orders")
    assert scene.cluster.forwarded == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused(ErrorCode.NOT_CONTROLLER), ErrorCode.NOT_CONTROLLER),
        (Expired("the controller is silent"), ErrorCode.REQUEST_TIMED_OUT),
    ],
)
async def test_without_a_controller_every_part_is_refused(scene: ClusterScene, error: HutongError, code: int) -> None:
    scene.cluster.controller_id, scene.cluster.answer = -1, error
    request = CreateTopicsRequest([CreatableTopic("a", 1, 1), CreatableTopic("b", 1, 1)])
    response = await scene.client.ask(request, 7)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", code), ("b", code)]


async def test_levels_of_loggers_stay_with_the_node_that_was_asked(scene: ClusterScene) -> None:
    scene.cluster.controller_id, scene.cluster.answer = NEXT, Refused(ErrorCode.NOT_CONTROLLER)

    async def alter(kind: int, name: str, key: str, value: str | None) -> int:
        resource = AlterConfigsResource(kind, name, [AlterableConfig(key, 0 if value else 1, value)])
        response = await scene.client.ask(IncrementalAlterConfigsRequest([resource]), 1)
        code: int = response.responses[0].error_code
        return code

    node = str(scene.broker.identity.node_id)
    assert await alter(LOGGER, node, "hutong.kafka", "WARN") == 0
    assert await alter(LOGGER, node, "hutong.kafka", None) == 0
    assert scene.cluster.forwarded == []
    assert await alter(BROKER, node, "log.retention.ms", "1000") == ErrorCode.NOT_CONTROLLER
    assert len(scene.cluster.forwarded) == 1


async def test_settings_of_other_nodes_are_changed_here_and_take_effect_there(scene: ClusterScene) -> None:
    configs = scene.broker.admin.node_configs
    configs.other_nodes = lambda: (7,)

    async def alter(name: str) -> int:
        resource = AlterConfigsResource(BROKER, name, [AlterableConfig("log.retention.ms", 0, "1234")])
        response = await scene.client.ask(IncrementalAlterConfigsRequest([resource]), 1)
        code: int = response.responses[0].error_code
        return code

    assert await alter("7") == 0
    assert await alter("8") == ErrorCode.INVALID_REQUEST
    assert configs.of("7") == {"log.retention.ms": "1234"}
    assert configs.value("log.retention.ms") != "1234"


async def test_a_topic_that_metadata_asks_for_is_created_by_the_controller(scene: ClusterScene) -> None:
    Remote(scene)
    scene.cluster.controller_id = NEXT
    asked = MetadataRequest([MetadataRequestTopic(name="new"), MetadataRequestTopic(name="no such/name")], True)
    response = await scene.client.ask(asked, 12)
    found = {topic.name: topic.error_code for topic in response.topics}
    assert found == {"new": 0, "no such/name": ErrorCode.INVALID_TOPIC_EXCEPTION}
    scene.cluster.answer = Refused(ErrorCode.NOT_CONTROLLER)
    response = await scene.client.ask(MetadataRequest([MetadataRequestTopic(name="newer")], True), 12)
    assert response.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE


async def test_a_request_goes_round_no_further_than_to_one_node(scene: ClusterScene) -> None:
    remote = Remote(scene)
    scene.cluster.controller_id = NEXT
    (outcome,) = remote.ask(CreateTopicsRequest([CreatableTopic("a", 1, 1)]), 7)
    assert isinstance(outcome, Refused)
    assert outcome.code == ErrorCode.NOT_CONTROLLER
    assert scene.cluster.forwarded == []


async def test_requests_of_other_nodes_are_answered_when_they_are_done(scene: ClusterScene) -> None:
    remote = Remote(scene)
    await scene.client.create("t")
    batch = memoryview(batch_of(b"v", timestamp_ms=SystemClock().wall_ms()))
    for acks in (1, 0):
        request = ProduceRequest(
            None, acks, 1000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
        )
        outcomes = remote.ask(request, 9)
        while not outcomes:
            await scene.client.fetch(0)
            for callback in remote.later:
                callback()
        if acks:
            assert outcomes[0].responses[0].partition_responses[0].base_offset == 0
        else:
            assert outcomes == [b""]
    assert len(scene.broker.fetches) == 0


async def test_what_is_no_request_is_refused_and_open_ones_can_be_ended(scene: ClusterScene) -> None:
    remote = Remote(scene)
    outcomes: list[bytes | HutongError] = []
    for frame in (b"", b"\0\1", b"\x7f\xff\0\0\0\0\0\1\0\0", b"\0\x13\0\7\0\0\0\1\0\0\0\xff"):
        session = remote.requests.session_of(Principal(USER, "a"), "10.0.0.9")
        remote.requests.handle_frame(frame, session, outcomes.append)
    assert [outcome.code for outcome in outcomes if isinstance(outcome, Refused)] == [ErrorCode.INVALID_REQUEST] * 4
    later = remote.ask(CreateTopicsRequest([CreatableTopic("a", 1, 1)]), 7)
    assert later == []
    remote.requests.close(Expired("the node stops"))
    assert len(later) == 1
    assert isinstance(later[0], Expired)
