"""The target of a request: the leader of its partition, the coordinator of its group or its transactions, any node.

Knows nothing of nodes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from hutong.wire.kafka.apis.k00_produce import ProduceRequest
from hutong.wire.kafka.apis.k01_fetch import FetchRequest, FetchTopic
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsRequest
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest
from hutong.wire.kafka.apis.k08_offset_commit import OffsetCommitRequest
from hutong.wire.kafka.apis.k09_offset_fetch import OffsetFetchRequest
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k13_leave_group import LeaveGroupRequest
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest
from hutong.wire.kafka.apis.k19_create_topics import CreateTopicsRequest
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest
from hutong.wire.kafka.apis.k21_delete_records import DeleteRecordsRequest
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest
from hutong.wire.kafka.apis.k24_add_partitions_to_txn import AddPartitionsToTxnRequest
from hutong.wire.kafka.apis.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from hutong.wire.kafka.apis.k26_end_txn import EndTxnRequest
from hutong.wire.kafka.apis.k28_txn_offset_commit import TxnOffsetCommitRequest
from hutong.wire.kafka.apis.k32_describe_configs import DescribeConfigsRequest
from hutong.wire.kafka.apis.k37_create_partitions import CreatePartitionsRequest
from hutong.wire.kafka.apis.k42_delete_groups import DeleteGroupsRequest
from hutong.wire.kafka.apis.k44_incremental_alter_configs import IncrementalAlterConfigsRequest
from hutong.wire.kafka.apis.k47_offset_delete import OffsetDeleteRequest
from hutong.wire.kafka.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from hutong.wire.kafka.apis.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from hutong.wire.kafka.apis.k90_describe_share_group_offsets import DescribeShareGroupOffsetsRequest


class NodeTask(Enum):
    """The tasks that nodes have for requests."""

    ANY = "answers"
    LEADS = "leads"
    COORDINATES_GROUP = "coordinates the group"
    COORDINATES_TRANSACTIONS = "coordinates transactions of"
    CONTROLS = "controls the cluster"


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """A task, and what it is about: a topic and a partition, a group, or a transactional id."""

    task: NodeTask
    name: str = ""
    partition: int = -1

    def __str__(self) -> str:
        return f"{self.task.value} {self.name} {self.partition if self.task is NodeTask.LEADS else ''}".rstrip()


_ANYWHERE: Final = RequestTarget(NodeTask.ANY)
_CONTROLLER: Final = RequestTarget(NodeTask.CONTROLS)


def _of_partition(topic: Any, parts: str, index: str) -> RequestTarget:
    name = topic.topic if isinstance(topic, FetchTopic) else topic.name
    return RequestTarget(NodeTask.LEADS, name, getattr(getattr(topic, parts)[0], index))


def _of_group(request: Any) -> RequestTarget:
    return RequestTarget(NodeTask.COORDINATES_GROUP, request.group_id)


def _transactional(request: Any) -> RequestTarget:
    return RequestTarget(NodeTask.COORDINATES_TRANSACTIONS, request.transactional_id)


_TARGETS: Final[dict[type, Callable[[Any], RequestTarget]]] = {
    # Clients of the simulator ask for one partition at a time.
    ProduceRequest: lambda request: _of_partition(request.topic_data[0], "partition_data", "index"),
    FetchRequest: lambda request: _of_partition(request.topics[0], "partitions", "partition"),
    ListOffsetsRequest: lambda request: _of_partition(request.topics[0], "partitions", "partition_index"),
    DeleteRecordsRequest: lambda request: _of_partition(request.topics[0], "partitions", "partition_index"),
    # What an administrator has changed, the controller knows first.
    MetadataRequest: lambda _: _CONTROLLER,
    DescribeConfigsRequest: lambda _: _CONTROLLER,
    CreateTopicsRequest: lambda _: _CONTROLLER,
    OffsetFetchRequest: lambda request: RequestTarget(NodeTask.COORDINATES_GROUP, request.groups[0].group_id),
    DeleteGroupsRequest: lambda request: RequestTarget(NodeTask.COORDINATES_GROUP, request.groups_names[0]),
    OffsetCommitRequest: _of_group,
    JoinGroupRequest: _of_group,
    HeartbeatRequest: _of_group,
    LeaveGroupRequest: _of_group,
    SyncGroupRequest: _of_group,
    TxnOffsetCommitRequest: _of_group,
    OffsetDeleteRequest: _of_group,
    ConsumerGroupHeartbeatRequest: _of_group,
    ShareGroupHeartbeatRequest: _of_group,
    DescribeShareGroupOffsetsRequest: lambda request: RequestTarget(
        NodeTask.COORDINATES_GROUP, request.groups[0].group_id
    ),
    InitProducerIdRequest: lambda request: _ANYWHERE if request.transactional_id is None else _transactional(request),
    AddPartitionsToTxnRequest: lambda request: RequestTarget(
        NodeTask.COORDINATES_TRANSACTIONS, request.v3_and_below_transactional_id
    ),
    AddOffsetsToTxnRequest: _transactional,
    EndTxnRequest: _transactional,
    # Nodes that are not the controller hand these on.
    DeleteTopicsRequest: lambda _: _ANYWHERE,
    CreatePartitionsRequest: lambda _: _ANYWHERE,
    IncrementalAlterConfigsRequest: lambda _: _ANYWHERE,
}


def target_of(request: Any) -> RequestTarget:
    """The task that the request needs, and its subject."""
    of_kind = _TARGETS.get(type(request))
    return _ANYWHERE if of_kind is None else of_kind(request)
