from typing import Any

import pytest
from tests.unit.pipelines.fakes import FakeBrokers

from hutong.foundation.errors import ProtocolError, Refused
from hutong.pipelines.client.cluster import (
    EARLIEST,
    LATEST,
    BrokerAddress,
    FoundOffset,
    TopicPartition,
    parse_bootstrap,
    raise_refusal,
)
from hutong.pipelines.client.identities import Producer
from hutong.pipelines.errors import Unavailable
from hutong.wire.kafka.apis.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from hutong.wire.kafka.error_codes import ErrorCode

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def offsets_answer(codes: dict[TopicPartition, list[int]] | None = None) -> Any:
    """Says 100 * partition + 7; an error first where `codes` holds one."""

    def answer(request: Any) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                pending = (codes or {}).get(TopicPartition(topic.name, partition.partition_index), [])
                code = pending.pop(0) if pending else 0
                offset = 100 * partition.partition_index + 7
                partitions.append(ListOffsetsPartitionResponse(partition.partition_index, code, -1, offset))
            topics.append(ListOffsetsTopicResponse(topic.name, partitions))
        return ListOffsetsResponse(topics=topics)

    return answer


def test_topics_that_exist_are_found() -> None:
    brokers = FakeBrokers({A0: 1, A1: 2, B0: 1, ("__internal", 0): 1})
    cluster = brokers.cluster()
    assert {name: topic.partitions for name, topic in cluster.topics(["a", "missing"]).items()} == {"a": (0, 1)}
    everything = cluster.topics()
    assert sorted(everything) == ["__internal", "a", "b"]
    assert [name for name, topic in everything.items() if topic.is_internal] == ["__internal"]


def test_a_topic_is_only_created_when_asked_for() -> None:
    brokers = FakeBrokers({})
    cluster = brokers.cluster()
    assert cluster.topics(["new"]) == {}
    assert not brokers.metadata_requests[-1].allow_auto_topic_creation
    with pytest.raises(Refused, match="topic new does not exist: create it"):
        cluster.topics(["new"], create=True)
    assert brokers.metadata_requests[-1].allow_auto_topic_creation
    assert sum(brokers.slept_s) <= 10  # it may take a moment, but not the whole time for trying again


def test_each_leader_is_asked_once_for_its_partitions() -> None:
    brokers = FakeBrokers({A0: 1, A1: 2, B0: 1})
    brokers.answers = {1: offsets_answer(), 2: offsets_answer()}
    found = brokers.cluster().offsets({A0: LATEST, A1: EARLIEST, B0: 1234})
    assert found == {A0: FoundOffset(7, -1), A1: FoundOffset(107, -1), B0: FoundOffset(7, -1)}
    (asked,) = brokers.connection(1).asked
    assert {topic.name: [p.timestamp for p in topic.partitions] for topic in asked.topics} == {"a": [-1], "b": [1234]}
    assert asked.isolation_level == 0


def test_read_committed_asks_for_the_last_stable_offset() -> None:
    brokers = FakeBrokers({A0: 1})
    brokers.answers[1] = offsets_answer()
    brokers.cluster(read_committed=True).offsets({A0: LATEST})
    assert brokers.connection(1).asked[0].isolation_level == 1


def test_a_leader_that_moved_is_looked_up_again() -> None:
    brokers = FakeBrokers({A0: 1, A1: 1})
    cluster = brokers.cluster()
    brokers.answers = {1: offsets_answer({A1: [ErrorCode.NOT_LEADER_OR_FOLLOWER]}), 2: offsets_answer()}
    before = brokers.leaders

    def sleep(seconds: float) -> None:
        brokers.leaders = before | {A1: 2}

    cluster._sleep = sleep
    assert cluster.offsets({A0: LATEST, A1: LATEST}) == {A0: FoundOffset(7, -1), A1: FoundOffset(107, -1)}
    assert brokers.connection(2).asked


def test_a_broker_that_restarts_is_waited_for() -> None:
    brokers = FakeBrokers({A0: 1})
    cluster = brokers.cluster()
    brokers.answers[1] = offsets_answer()
    cluster.offsets({A0: LATEST})
    brokers.down = {0, 1}

    def sleep(seconds: float) -> None:
        brokers.slept_s.append(seconds)
        brokers.down = set() if len(brokers.slept_s) == 4 else brokers.down

    cluster._sleep = sleep
    assert cluster.offsets({A0: LATEST}) == {A0: FoundOffset(7, -1)}
    assert brokers.slept_s == [0.05, 0.1, 0.2, 0.4]


def test_trying_again_ends_at_the_deadline() -> None:
    brokers = FakeBrokers({A0: 1})
    brokers.down = {0, 1}
    with pytest.raises(Unavailable, match="no broker answers at host-0:9092"):
        brokers.cluster(retry_ms=5_000).offsets({A0: LATEST})
    assert 3 < sum(brokers.slept_s) <= 5
    assert max(brokers.slept_s) == 1


def test_what_will_not_pass_is_not_tried_again() -> None:
    brokers = FakeBrokers({A0: 1})
    brokers.answers[1] = offsets_answer({A0: [ErrorCode.TOPIC_AUTHORIZATION_FAILED]})
    with pytest.raises(Refused, match="TOPIC_AUTHORIZATION_FAILED"):
        brokers.cluster().offsets({A0: LATEST})
    with pytest.raises(Refused, match="topic missing does not exist"):
        brokers.cluster().offsets({TopicPartition("missing", 0): LATEST})
    assert brokers.slept_s == []


def test_an_answer_that_leaves_out_partitions_is_refused() -> None:
    brokers = FakeBrokers({A0: 1})
    brokers.answers[1] = lambda request: ListOffsetsResponse()
    with pytest.raises(ProtocolError, match="did not answer for every partition"):
        brokers.cluster().offsets({A0: LATEST})


def test_connections_are_used_again_unless_an_answer_is_outstanding() -> None:
    brokers = FakeBrokers({A0: 1})
    brokers.answers[1] = offsets_answer()
    cluster = brokers.cluster()
    first = cluster.leader(A0)
    assert cluster.leader(A0) is first
    first.send("something")
    assert cluster.leader(A0) is not first
    assert not first.is_idle


def test_every_bootstrap_address_is_tried() -> None:
    brokers = FakeBrokers({A0: 5})
    brokers.down = {3, 4}
    assert brokers.cluster([3, 4, 5]).topics(["a"])["a"].partitions == (0,)
    assert [node for node, _ in brokers.opened] == [5]


def test_a_producer_gets_an_identity() -> None:
    brokers = FakeBrokers({A0: 0})
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]

    def answer(request: Any) -> InitProducerIdResponse:
        assert isinstance(request, InitProducerIdRequest)
        return InitProducerIdResponse(error_code=codes.pop(0), producer_id=77, producer_epoch=3)

    brokers.answers[0] = answer
    assert brokers.cluster().new_producer() == Producer(77, 3)


def test_an_error_code_that_nobody_defined_is_told_by_its_number() -> None:
    raise_refusal(0, "fine")
    with pytest.raises(Refused, match="no: error 9999") as told:
        raise_refusal(9999, "no")
    assert told.value.code == 9999


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        (" a:1 , b:65535,", [("a", 1), ("b", 65535)]),
        ("[::1]:9092", [("::1", 9092)]),
    ],
)
def test_bootstrap_addresses_are_read(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == tuple(BrokerAddress(*address) for address in addresses)


@pytest.mark.parametrize("text", ["", " , ", "host", "host:", ":1", "host:0", "host:65536", "host:x"])
def test_what_is_no_bootstrap_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_bootstrap(text)
