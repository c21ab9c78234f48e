"""The routes of a client: what it asks, what it believes, and what makes it ask again."""

from collections.abc import Sequence
from random import Random

from hutong.testing.simulation.clients.routing.routes import Routes
from hutong.testing.simulation.clients.routing.targets import NodeTask, RequestTarget, target_of
from hutong.testing.simulation.plan.drawing import draw_plan
from hutong.testing.simulation.plan.faults import kinds_of
from hutong.testing.simulation.simulation import Simulation
from hutong.wire.kafka.apis.k01_fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from hutong.wire.kafka.apis.k03_metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from hutong.wire.kafka.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest
from hutong.wire.kafka.apis.shared import LeaderIdAndEpoch
from hutong.wire.kafka.error_codes import ErrorCode

NODES = [("127.1.0.1", 9092), ("127.1.0.2", 9092), ("127.1.0.3", 9092)]
LEADER = RequestTarget(NodeTask.LEADS, "orders", 0)
GROUP = RequestTarget(NodeTask.COORDINATES_GROUP, "readers")
FETCH = FetchRequest(topics=[FetchTopic("orders", partitions=[FetchPartition(partition=0)])])


def routes(nodes: Sequence[tuple[str, int]] = NODES) -> Routes:
    return Routes(nodes, Random(1))


def metadata(leader: int, epoch: int, topic_id: bytes = bytes(16)) -> MetadataResponse:
    brokers = [MetadataResponseBroker(number, host, port) for number, (host, port) in enumerate(NODES, 1)]
    part = MetadataResponsePartition(0, 0, leader, epoch, [1, 2, 3], [1, 2, 3], [])
    topics = [MetadataResponseTopic(0, "orders", topic_id, False, [part])]
    return MetadataResponse(brokers=brokers, controller_id=2, topics=topics)


def refusal(error: ErrorCode, leader: int = -1, epoch: int = -1) -> FetchResponse:
    part = PartitionData(partition_index=0, error_code=error, current_leader=LeaderIdAndEpoch(leader, epoch))
    return FetchResponse(responses=[FetchableTopicResponse("orders", partitions=[part])])


def test_a_client_of_one_node_asks_nothing() -> None:
    alone = routes(NODES[:1])
    assert {alone.address_of(target) for target in (LEADER, GROUP, target_of(None))} == {NODES[0]}


def test_a_partition_has_the_leader_that_metadata_names() -> None:
    ours = routes()
    assert ours.address_of(LEADER) is None
    question, _ = ours.question_about(LEADER)
    assert isinstance(question, MetadataRequest)
    ours.heard(LEADER, metadata(3, 5), [])
    assert ours.address_of(target_of(FETCH)) == NODES[2]
    assert ours.address_of(RequestTarget(NodeTask.CONTROLS)) == NODES[1]
    ours.mark_epochs(FETCH)
    assert FETCH.topics[0].partitions[0].current_leader_epoch == 5


def test_a_leader_of_an_older_epoch_is_not_believed_unless_the_topic_is_another() -> None:
    ours = routes()
    ours.heard(LEADER, metadata(3, 5), [])
    ours.heard(LEADER, metadata(1, 4), [])
    assert ours.address_of(LEADER) == NODES[2]
    ours.heard(LEADER, metadata(1, 2, bytes([1] * 16)), [])
    assert ours.address_of(LEADER) == NODES[0]


def test_a_refusal_makes_a_client_ask_again_or_names_the_new_leader() -> None:
    ours = routes()
    ours.heard(LEADER, metadata(3, 5), [])
    wrong = ErrorCode.NOT_LEADER_OR_FOLLOWER
    ours.heard(LEADER, refusal(wrong), [wrong])
    assert ours.address_of(LEADER) is None
    ours.heard(LEADER, refusal(wrong, leader=1, epoch=6), [wrong])
    assert ours.address_of(LEADER) == NODES[0]


def test_a_lost_connection_makes_a_client_ask_others() -> None:
    ours = routes()
    ours.heard(LEADER, metadata(3, 5), [])
    ours.heard(GROUP, FindCoordinatorResponse(node_id=3, host=NODES[2][0], port=NODES[2][1]), [])
    assert ours.address_of(GROUP) == NODES[2]
    ours.lost(NODES[2])
    assert ours.address_of(LEADER) is None
    question, _ = ours.question_about(GROUP)
    assert question == FindCoordinatorRequest("readers", 0)
    while ours.anyone() != NODES[1]:
        pass
    ours.lost(NODES[1])
    assert ours.anyone() != NODES[1]


def test_coordinators_are_those_of_groups_and_of_transactional_ids() -> None:
    transactional = InitProducerIdRequest("teller", 1_000)
    assert target_of(transactional) == RequestTarget(NodeTask.COORDINATES_TRANSACTIONS, "teller")
    assert target_of(InitProducerIdRequest(None, 1_000)).task is NodeTask.ANY


def test_clients_that_ask_for_leaders_keep_all_promises_with_one_node() -> None:
    for seed in (1, 2, 5):
        simulation = Simulation(draw_plan(seed, 0.1, kinds_of("all")))
        # Two addresses of one node: the clients look for leaders and coordinators.
        simulation.addresses *= 2
        assert simulation.run().errors == ()
