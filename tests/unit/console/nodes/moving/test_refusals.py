"""Refusals of operators' requests, as the browser sees them; what is asked of brokers of Apache Kafka."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hutong.cluster.controller.commands import CommandReply, encode_reply
from hutong.console.nodes.cluster import PlacedPartition, SeenBroker, SeenCluster
from hutong.console.nodes.moving import asking
from hutong.console.nodes.moving.access import MoveAccess
from hutong.console.nodes.moving.plan import MoveStep
from hutong.console.nodes.moving.units import MoveUnit
from hutong.foundation.errors import PeerError, Refused
from hutong.web.answers import WebRefusal
from hutong.wire.kafka.apis.k35_describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from hutong.wire.kafka.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from hutong.wire.kafka.apis.k46_list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from hutong.wire.kafka.apis.k10000_cluster_command import ClusterCommandResponse
from hutong.wire.kafka.error_codes import ErrorCode


class Brokers:
    """Answers with what it was given, and notes what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.asked: list[Any] = []
        self._answers = list(answers)

    def ask(self, request: Any) -> Any:
        self.asked.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask_at(self, host: str, port: int, request: Any, version: int) -> Any:
        return self.ask(request)

    def asks_hutong(self) -> bool:
        return False

    @contextmanager
    def opened(self, properties: Any) -> Iterator["Brokers"]:
        yield self


class Desk:
    """A desk whose user has no properties."""

    node = None

    def __init__(self) -> None:
        self.properties: dict[str, Any] = {}

    async def account(self, request: Any) -> Any:
        return self

    async def blocking(self, call: Any) -> Any:
        return call()


async def refusal(error: Exception) -> WebRefusal:
    def work(connection: Any, is_hutong: bool) -> None:
        raise error

    access: Any = MoveAccess(Desk(), Brokers())  # type: ignore[arg-type]
    with pytest.raises(WebRefusal) as raised:
        await access.asked(None, work)
    return raised.value


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "you need ALTER"), 403),
        (Refused(ErrorCode.SASL_AUTHENTICATION_FAILED, "no"), 403),
        (Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "none"), 404),
        (Refused(ErrorCode.REASSIGNMENT_IN_PROGRESS, "it moves"), 409),
        (Refused(ErrorCode.REQUEST_TIMED_OUT, "late"), 503),
        (Refused(12_345, "new"), 409),
        (PeerError("gone"), 503),
        (WebRefusal(404, "none"), 404),
    ],
)
async def test_errors_of_brokers_are_refusals(error: Exception, status: int) -> None:
    assert (await refusal(error)).status == status


UNIT = MoveUnit("days", (("orders", 0), ("orders", 1)), (1, 2))
WHOLE = MoveStep(UNIT, UNIT.members, (2, 3), None)
PART = MoveStep(UNIT, UNIT.members[:1], (2, 3), None)


def commanded(**reply: Any) -> ClusterCommandResponse:
    return ClusterCommandResponse(reply=encode_reply(CommandReply(**reply)), error_message=None)


def altered(number: int, code: int = 0, message: str | None = None) -> AlterPartitionReassignmentsResponse:
    result = ReassignablePartitionResponse(number, code, message)
    return AlterPartitionReassignmentsResponse(responses=[ReassignableTopicResponse("orders", [result])])


def test_whole_groups_move_by_a_command_and_parts_by_kafkas_request() -> None:
    brokers = Brokers(commanded(), altered(0, 60, "it moves"))
    assert asking.move_all(brokers, [WHOLE, PART]) == {"orders/0": "it moves"}
    request = brokers.asked[1]
    assert isinstance(request, AlterPartitionReassignmentsRequest)
    assert [(one.partition_index, one.replicas) for one in request.topics[0].partitions] == [(0, [2, 3])]


def test_a_group_that_is_refused_holds_no_other_one_up() -> None:
    brokers = Brokers(Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not alive"), commanded())
    other = MoveStep(MoveUnit("hours", (), (1,)), (), (2,), None)
    assert asking.move_all(brokers, [WHOLE, other]) == {"days": "not alive"}
    brokers = Brokers(Refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "ALTER"), commanded())
    with pytest.raises(Refused):
        asking.move_all(brokers, [WHOLE, other])


def test_taking_back_names_no_replicas() -> None:
    brokers = Brokers(altered(3), altered(3, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS))
    assert asking.take_back(brokers, ("orders", 3)) == {}
    assert "reassignment" in asking.take_back(brokers, ("orders", 3))["orders/3"].lower()
    assert brokers.asked[0].topics[0].partitions[0].replicas is None


def test_the_state_of_apache_kafka() -> None:
    ongoing = OngoingPartitionReassignment(0, [2, 3, 1], [2, 3], [1])
    moving = ListPartitionReassignmentsResponse(topics=[OngoingTopicReassignment("orders", [ongoing])])
    held = DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                topics=[
                    DescribeLogDirsTopic(
                        "orders", [DescribeLogDirsPartition(0, 500), DescribeLogDirsPartition(0, 9, 0, True)]
                    )
                ]
            )
        ]
    )
    brokers = (SeenBroker(1, "h", 1, None), SeenBroker(2, "h", 2, None))
    cluster = SeenCluster("c", 1, brokers, ("orders",), (PlacedPartition("orders", 0, 1, (1,), (1,)),))
    sizes = asking.held_bytes(Brokers(held, PeerError("down")), cluster, {"orders": [0]})
    assert sizes == {(1, ("orders", 0)): 500}, "a broker that is down tells nothing, a future replica does not count"
    (unit,) = asking.kafka_units(Brokers(moving), cluster, sizes)
    assert (unit.replicas, unit.target, unit.size_bytes) == ((1,), (2, 3), 500)
    assert asking.held_bytes(Brokers(), cluster, {}) == {}
