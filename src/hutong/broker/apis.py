"""The table of Kafka's APIs as this broker serves them: rights, bounds, and where messages and handlers are found.

Strategy: one row for each API. `needs` are the rights that it asks the ACLs for, all of which must be met; each is met
by any of its alternatives. A right may concern a part of a request alone (a topic, a transactional id), and then that
part is refused. Tests hold every handler to its row, and docs/security.md shows the table.

Numbers of versions are in `wire.kafka.registry`, with the tables of requests and responses. Handlers ask the ACLs by
themselves, since only they know which field names which resource.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.kafka import HANDLERS
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.registry import APIS
from hutong.wire.kafka.request_bounds import elements_max

if TYPE_CHECKING:
    from hutong.broker.kafka import Handler

Right = tuple[Operation, ResourceType]
Need = tuple[Right, ...]
UNBOUNDED: Final = 1 << 62  # except by the reactor
FRAME_BYTES_MAX: Final = 8 * 1024 * 1024
"""Only Produce carries data; in any other request a byte can become an object many times its size."""
OBJECT_BYTES_PER_BYTE: Final = 8
"""Memory of the objects that a byte of a request becomes, where they are kept (measured: Fetch, 500,000 partitions)."""


@dataclass(frozen=True, slots=True)
class BrokerApi:
    """One API. `is_open` says why it asks for no right.

    Clients of a long poll ask to be kept waiting, so that wait does not make a request slow. Requests that are traced
    get a span if the node has a tracer.
    """

    key: int
    needs: tuple[Need, ...]
    is_open: str
    frame_bytes_max: int
    is_long_poll: bool
    is_traced: bool

    @property
    def handler(self) -> Handler:
        """The function in `broker/kafka/kNN_name.py`, imported when it is first asked for."""
        return HANDLERS[self.key]

    @property
    def request(self) -> type[Any]:
        return APIS[self.key].request

    @property
    def response(self) -> type[Any]:
        return APIS[self.key].response

    @property
    def elements_max(self) -> int | None:
        """The bound on the elements of all lists in a request together."""
        return elements_max(f"{APIS[self.key].name}Request")

    def parked_bytes(self, received_bytes: int) -> int:
        """Memory that a request keeps until it is answered. Records are in the journal's cache, which is bounded."""
        return 0 if self.frame_bytes_max == UNBOUNDED else OBJECT_BYTES_PER_BYTE * received_bytes


_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_TRANSACTION = ResourceType.TRANSACTIONAL_ID
_NO_TOKENS: Final = "is refused to everybody: there are no delegation tokens"


def _of(kind: ResourceType, *operations: str) -> Need:
    return tuple((Operation[operation], kind) for operation in operations)


def _api(
    key: int,
    *needs: Need,
    is_open: str = "",
    frame_bytes_max: int = FRAME_BYTES_MAX,
    is_long_poll: bool = False,
    is_traced: bool = False,
) -> BrokerApi:
    return BrokerApi(key, needs, is_open, frame_bytes_max, is_long_poll, is_traced)


_ROWS: Final = (
    _api(0, _of(_TOPIC, "WRITE"), _of(_TRANSACTION, "WRITE"), frame_bytes_max=UNBOUNDED, is_traced=True),  # Produce
    _api(1, _of(_TOPIC, "READ"), _of(_CLUSTER, "CLUSTER_ACTION"), is_traced=True, is_long_poll=True),  # Fetch
    _api(2, _of(_TOPIC, "DESCRIBE")),  # ListOffsets
    _api(3, _of(_TOPIC, "DESCRIBE"), _of(_CLUSTER, "CREATE") + _of(_TOPIC, "CREATE")),  # Metadata
    _api(8, _of(_GROUP, "READ"), _of(_TOPIC, "READ")),  # OffsetCommit
    _api(9, _of(_GROUP, "DESCRIBE"), _of(_TOPIC, "DESCRIBE")),  # OffsetFetch
    _api(10, _of(_GROUP, "DESCRIBE"), _of(_TRANSACTION, "DESCRIBE")),  # FindCoordinator
    _api(11, _of(_GROUP, "READ"), is_long_poll=True),  # JoinGroup
    _api(12, _of(_GROUP, "READ")),  # Heartbeat
    _api(13, _of(_GROUP, "READ")),  # LeaveGroup
    _api(14, _of(_GROUP, "READ"), is_long_poll=True),  # SyncGroup
    _api(15, _of(_GROUP, "DESCRIBE")),  # DescribeGroups
    _api(16, _of(_CLUSTER, "DESCRIBE") + _of(_GROUP, "DESCRIBE")),  # ListGroups
    _api(17, is_open="says how to authenticate"),  # SaslHandshake
    _api(18, is_open="says which APIs there are"),  # ApiVersions
    _api(19, _of(_CLUSTER, "CREATE") + _of(_TOPIC, "CREATE"), _of(_TOPIC, "DESCRIBE_CONFIGS")),  # CreateTopics
    _api(20, _of(_CLUSTER, "DELETE") + _of(_TOPIC, "DELETE")),  # DeleteTopics
    _api(21, _of(_TOPIC, "DELETE")),  # DeleteRecords
    _api(22, _of(_TRANSACTION, "WRITE"), _of(_CLUSTER, "IDEMPOTENT_WRITE") + _of(_TOPIC, "WRITE")),  # InitProducerId
    _api(23, _of(_CLUSTER, "CLUSTER_ACTION") + _of(_TOPIC, "DESCRIBE")),  # OffsetForLeaderEpoch
    _api(24, _of(_TRANSACTION, "WRITE"), _of(_TOPIC, "WRITE"), _of(_CLUSTER, "CLUSTER_ACTION")),  # AddPartitionsToTxn
    _api(25, _of(_TRANSACTION, "WRITE"), _of(_GROUP, "READ")),  # AddOffsetsToTxn
    _api(26, _of(_TRANSACTION, "WRITE")),  # EndTxn
    _api(27, _of(_CLUSTER, "ALTER", "CLUSTER_ACTION")),  # WriteTxnMarkers
    _api(28, _of(_TRANSACTION, "WRITE"), _of(_GROUP, "READ"), _of(_TOPIC, "READ")),  # TxnOffsetCommit
    _api(29, _of(_CLUSTER, "DESCRIBE")),  # DescribeAcls
    _api(30, _of(_CLUSTER, "ALTER")),  # CreateAcls
    _api(31, _of(_CLUSTER, "ALTER")),  # DeleteAcls
    _api(
        32, _of(_TOPIC, "DESCRIBE_CONFIGS"), _of(_GROUP, "DESCRIBE_CONFIGS"), _of(_CLUSTER, "DESCRIBE_CONFIGS")
    ),  # DescribeConfigs
    _api(
        33, _of(_TOPIC, "ALTER_CONFIGS"), _of(_GROUP, "ALTER_CONFIGS"), _of(_CLUSTER, "ALTER_CONFIGS")
    ),  # AlterConfigs
    _api(34, _of(_CLUSTER, "ALTER")),  # AlterReplicaLogDirs
    _api(35, _of(_CLUSTER, "DESCRIBE")),  # DescribeLogDirs
    _api(36, is_open="authenticates"),  # SaslAuthenticate
    _api(37, _of(_TOPIC, "ALTER")),  # CreatePartitions
    _api(38, is_open=_NO_TOKENS),  # CreateDelegationToken
    _api(39, is_open=_NO_TOKENS),  # RenewDelegationToken
    _api(40, is_open=_NO_TOKENS),  # ExpireDelegationToken
    _api(41, is_open=_NO_TOKENS),  # DescribeDelegationToken
    _api(42, _of(_GROUP, "DELETE")),  # DeleteGroups
    _api(43, _of(_CLUSTER, "ALTER")),  # ElectLeaders
    _api(
        44, _of(_TOPIC, "ALTER_CONFIGS"), _of(_GROUP, "ALTER_CONFIGS"), _of(_CLUSTER, "ALTER_CONFIGS")
    ),  # IncrementalAlterConfigs
    _api(45, _of(_CLUSTER, "ALTER")),  # AlterPartitionReassignments
    _api(46, _of(_CLUSTER, "DESCRIBE")),  # ListPartitionReassignments
    _api(47, _of(_GROUP, "DELETE"), _of(_TOPIC, "READ")),  # OffsetDelete
    _api(48, _of(_CLUSTER, "DESCRIBE_CONFIGS")),  # DescribeClientQuotas
    _api(49, _of(_CLUSTER, "ALTER_CONFIGS")),  # AlterClientQuotas
    _api(50, _of(_CLUSTER, "DESCRIBE")),  # DescribeUserScramCredentials
    _api(51, _of(_CLUSTER, "ALTER")),  # AlterUserScramCredentials
    _api(55, _of(_CLUSTER, "DESCRIBE")),  # DescribeQuorum
    _api(57, _of(_CLUSTER, "ALTER")),  # UpdateFeatures
    _api(
        60, is_open="says where the cluster is; its operations are listed for clients that may `DESCRIBE` it"
    ),  # DescribeCluster
    _api(61, _of(_TOPIC, "READ")),  # DescribeProducers
    _api(64, _of(_CLUSTER, "ALTER")),  # UnregisterBroker
    _api(65, _of(_TRANSACTION, "DESCRIBE")),  # DescribeTransactions
    _api(66, _of(_TRANSACTION, "DESCRIBE")),  # ListTransactions
    _api(68, _of(_GROUP, "READ"), _of(_TOPIC, "DESCRIBE")),  # ConsumerGroupHeartbeat
    _api(69, _of(_GROUP, "DESCRIBE"), _of(_TOPIC, "DESCRIBE")),  # ConsumerGroupDescribe
    _api(74, _of(_CLUSTER, "DESCRIBE_CONFIGS")),  # ListConfigResources
    _api(75, _of(_TOPIC, "DESCRIBE")),  # DescribeTopicPartitions
    _api(76, _of(_GROUP, "READ"), _of(_TOPIC, "DESCRIBE")),  # ShareGroupHeartbeat
    _api(77, _of(_GROUP, "DESCRIBE"), _of(_TOPIC, "DESCRIBE")),  # ShareGroupDescribe
    _api(78, _of(_GROUP, "READ"), _of(_TOPIC, "READ"), is_long_poll=True),  # ShareFetch
    _api(79, _of(_GROUP, "READ"), _of(_TOPIC, "READ")),  # ShareAcknowledge
    _api(80, _of(_CLUSTER, "ALTER")),  # AddRaftVoter
    _api(81, _of(_CLUSTER, "ALTER")),  # RemoveRaftVoter
    _api(90, _of(_GROUP, "DESCRIBE"), _of(_TOPIC, "DESCRIBE")),  # DescribeShareGroupOffsets
    _api(91, _of(_GROUP, "READ"), _of(_TOPIC, "READ")),  # AlterShareGroupOffsets
    _api(92, _of(_GROUP, "DELETE"), _of(_TOPIC, "READ")),  # DeleteShareGroupOffsets
)
BROKER_APIS: Final[Mapping[int, BrokerApi]] = {row.key: row for row in _ROWS}
