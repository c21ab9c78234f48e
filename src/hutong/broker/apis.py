"""The table of Kafka's APIs as this broker serves them: rights, bounds, parts, and where to find messages and handlers.

Strategy: one row for each API. `needs` are the rights that it asks the ACLs for, all of which must be met; each is met
by any of its alternatives. A right may concern a part of a request alone (a topic, a transactional id), and then that
part is refused. Tests hold every handler to its row, and docs/security.md shows the table.

A byte of a request can become an object of a hundred bytes, and more in the response, so each request has a bound on
its elements, too. Kafka has none; these are far above the requests of real clients. A request for partitions that is
handled in parts (`dispatch/request_parts.py`) may name twice the partitions that a node can have. Lists of names are in
parts as well, but their answers are large. Others are handled at once: their bound keeps them below 50 ms (measured: 1
to 4 us of CPU time for an element, 5 to 8 for those with COSTLY_ELEMENTS_MAX).

Numbers of versions are in `wire.kafka.registry`, with the tables of requests and responses. Handlers ask the ACLs by
themselves, since only they know which field names which resource.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hutong.broker.kafka import HANDLERS
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.registry import APIS

if TYPE_CHECKING:
    from hutong.broker.kafka import Handler

Right = tuple[Operation, ResourceType]
Need = tuple[Right, ...]
UNBOUNDED: Final = 1 << 62  # except by the reactor
FRAME_BYTES_MAX: Final = 8 * 1024 * 1024
"""Only Produce carries data; in any other request a byte can become an object many times its size."""
OBJECT_BYTES_PER_BYTE: Final = 8
"""Memory of the objects that a byte of a request becomes, where they are kept (measured: Fetch, 500,000 partitions)."""
COSTLY_ELEMENTS_MAX: Final = 5_000
ELEMENTS_MAX: Final = 10_000
LIST_ELEMENTS_MAX: Final = 20_000
PARTITION_ELEMENTS_MAX: Final = 200_000
PART_QUESTIONS: Final = 200
"""Handled in 1 to 2 ms (measured: 2 to 8 us each)."""


class Division(NamedTuple):
    """The fields of a request that is a list of independent questions, and of its answer; sizes of its parts.

    Questions of one `name_of` stay in one part, since the handler refuses or answers them together. Where questions
    have lists of their own, `inner`, such as the partitions of topics, those are cut, too.
    """

    questions: tuple[str, ...]  # the first that is not empty counts
    answers: str
    size: int = PART_QUESTIONS
    name_of: Callable[[Any], Any] | None = None
    inner: str = ""
    inner_answers: str = "partitions"
    whole_max: int = 0  # elements of a request that is handled at once; 0 for twice the size


@dataclass(frozen=True, slots=True)
class BrokerApi:
    """One API. `is_open` says why it asks for no right.

    `elements_max` bounds the elements of all lists in a request together. `division` is None where a request is handled
    as a whole.

    Among several nodes a request that `is_forwarded` is handled by the controller, whichever node it reaches.

    Clients of a long poll ask to be kept waiting, so that wait does not make a request slow. Requests that are traced
    get a span if the node has a tracer.
    """

    key: int
    needs: tuple[Need, ...]
    is_open: str
    frame_bytes_max: int
    elements_max: int
    division: Division | None
    is_long_poll: bool
    is_traced: bool
    is_forwarded: bool

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

    def parked_bytes(self, received_bytes: int) -> int:
        """Memory that a request keeps until it is answered. Records are in the journal's cache, which is bounded."""
        return 0 if self.frame_bytes_max == UNBOUNDED else OBJECT_BYTES_PER_BYTE * received_bytes


_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_TRANSACTION = ResourceType.TRANSACTIONAL_ID
_CHANGING_METADATA: Final = frozenset((19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 49, 51, 55, 57, 64))
"""APIs that change what all nodes have in common, and those that only the controller can answer."""
_OWN_TOKENS: Final = "is for the token's owner, requester and renewers"


def _of(kind: ResourceType, *operations: str) -> Need:
    return tuple((Operation[operation], kind) for operation in operations)


_ALTER_CONFIGS: Final = tuple(_of(kind, "ALTER_CONFIGS") for kind in (_TOPIC, _GROUP, _CLUSTER))
_DESCRIBE_CONFIGS: Final = tuple(_of(kind, "DESCRIBE_CONFIGS") for kind in (_TOPIC, _GROUP, _CLUSTER))


def _api(
    key: int,
    *needs: Need,
    is_open: str = "",
    frame_bytes_max: int = FRAME_BYTES_MAX,
    elements_max: int = ELEMENTS_MAX,
    division: Division | None = None,
    is_long_poll: bool = False,
    is_traced: bool = False,
) -> BrokerApi:
    is_forwarded = key in _CHANGING_METADATA
    return BrokerApi(
        key, needs, is_open, frame_bytes_max, elements_max, division, is_long_poll, is_traced, is_forwarded
    )


def _list(key: int, *needs: Need, division: Division) -> BrokerApi:
    return _api(key, *needs, elements_max=LIST_ELEMENTS_MAX, division=division)


def _partitions(key: int, *needs: Need, division: Division) -> BrokerApi:
    return _api(key, *needs, elements_max=PARTITION_ELEMENTS_MAX, division=division)


def _costly(key: int, *needs: Need) -> BrokerApi:
    return _api(key, *needs, elements_max=COSTLY_ELEMENTS_MAX)


def _itself(question: Any) -> Any:
    return question


def _topic_of(question: Any) -> Any:
    """A topic to be deleted: until version 5 its name, then its name or its id."""
    return question if isinstance(question, str) else (question.name, question.topic_id)


# Elements of a Produce that are appended at once, and so flushed together (measured: 5 to 10 us each).
_PRODUCED: Final = Division(("topic_data",), "responses", 250, None, "partition_data", "partition_responses", 1_000)
# A commit takes 1 us for each partition, and waits for the disk after each part.
_COMMITTED: Final = Division(("topics",), "topics", 2_000, inner="partitions", whole_max=500)
_LISTED_OFFSETS: Final = Division(("topics",), "topics", inner="partitions", whole_max=500)
_FETCHED_OFFSETS: Final = Division(("topics",), "topics", inner="partition_indexes", whole_max=500)
_METADATA: Final = Division(("topics",), "topics", whole_max=500)
# Measured: 75 us to create a topic and as much to apply it, 80 to describe the settings of one, 55 to alter them, 4 to
# describe a group.
_CREATED: Final = Division(("topics",), "topics", 40, attrgetter("name"))
_WIDENED: Final = Division(("topics",), "results", 40, attrgetter("name"))
_DELETED: Final = Division(("topics", "topic_names"), "responses", 40, _topic_of)
_DESCRIBED_CONFIGS: Final = Division(("resources",), "results", 25)
_ALTERED_CONFIGS: Final = Division(("resources",), "responses", 60, attrgetter("resource_type", "resource_name"))
_DESCRIBED_GROUPS: Final = Division(("groups",), "groups")
_DESCRIBED_GROUP_IDS: Final = Division(("group_ids",), "groups")
_DELETED_GROUPS: Final = Division(("groups_names",), "results", name_of=_itself)
_ROWS: Final = (
    _api(
        0,
        _of(_TOPIC, "WRITE"),
        _of(_TRANSACTION, "WRITE"),
        frame_bytes_max=UNBOUNDED,
        division=_PRODUCED,
        is_traced=True,
    ),  # Produce
    _api(
        1,
        _of(_TOPIC, "READ"),
        _of(_CLUSTER, "CLUSTER_ACTION"),
        elements_max=LIST_ELEMENTS_MAX,
        is_long_poll=True,
        is_traced=True,
    ),  # Fetch
    _partitions(2, _of(_TOPIC, "DESCRIBE"), division=_LISTED_OFFSETS),  # ListOffsets
    _partitions(
        3, _of(_TOPIC, "DESCRIBE"), _of(_CLUSTER, "CREATE") + _of(_TOPIC, "CREATE"), division=_METADATA
    ),  # Metadata
    _partitions(8, _of(_GROUP, "READ"), _of(_TOPIC, "READ"), division=_COMMITTED),  # OffsetCommit
    _partitions(9, _of(_GROUP, "DESCRIBE"), _of(_TOPIC, "DESCRIBE"), division=_FETCHED_OFFSETS),  # OffsetFetch
    _api(10, _of(_GROUP, "DESCRIBE"), _of(_TRANSACTION, "DESCRIBE")),  # FindCoordinator
    _api(11, _of(_GROUP, "READ"), is_long_poll=True),  # JoinGroup
    _api(12, _of(_GROUP, "READ")),  # Heartbeat
    _api(13, _of(_GROUP, "READ")),  # LeaveGroup
    _api(14, _of(_GROUP, "READ"), is_long_poll=True),  # SyncGroup
    _list(15, _of(_GROUP, "DESCRIBE"), division=_DESCRIBED_GROUPS),  # DescribeGroups
    _api(16, _of(_CLUSTER, "DESCRIBE") + _of(_GROUP, "DESCRIBE")),  # ListGroups
    _api(17, is_open="says how to authenticate"),  # SaslHandshake
    _api(18, is_open="says which APIs there are"),  # ApiVersions
    _list(
        19, _of(_CLUSTER, "CREATE") + _of(_TOPIC, "CREATE"), _of(_TOPIC, "DESCRIBE_CONFIGS"), division=_CREATED
    ),  # CreateTopics
    _list(20, _of(_CLUSTER, "DELETE") + _of(_TOPIC, "DELETE"), division=_DELETED),  # DeleteTopics
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
    _list(32, *_DESCRIBE_CONFIGS, division=_DESCRIBED_CONFIGS),  # DescribeConfigs
    _list(33, *_ALTER_CONFIGS, division=_ALTERED_CONFIGS),  # AlterConfigs
    _api(34, _of(_CLUSTER, "ALTER")),  # AlterReplicaLogDirs
    _api(35, _of(_CLUSTER, "DESCRIBE")),  # DescribeLogDirs
    _api(36, is_open="authenticates"),  # SaslAuthenticate
    _list(37, _of(_TOPIC, "ALTER"), division=_WIDENED),  # CreatePartitions
    _api(
        38, is_open="makes a token of the client itself; for another user it needs `CREATE_TOKENS` of that user"
    ),  # CreateDelegationToken
    _api(39, is_open=_OWN_TOKENS),  # RenewDelegationToken
    _api(40, is_open=_OWN_TOKENS),  # ExpireDelegationToken
    _api(
        41,
        is_open="shows the client's own tokens; others with `DESCRIBE` of the token or `DESCRIBE_TOKENS` of its owner",
    ),  # DescribeDelegationToken
    _list(42, _of(_GROUP, "DELETE"), division=_DELETED_GROUPS),  # DeleteGroups
    _api(43, _of(_CLUSTER, "ALTER")),  # ElectLeaders
    _list(44, *_ALTER_CONFIGS, division=_ALTERED_CONFIGS),  # IncrementalAlterConfigs
    _api(45, _of(_CLUSTER, "ALTER")),  # AlterPartitionReassignments
    _api(46, _of(_CLUSTER, "DESCRIBE")),  # ListPartitionReassignments
    _api(47, _of(_GROUP, "DELETE"), _of(_TOPIC, "READ")),  # OffsetDelete
    _api(48, _of(_CLUSTER, "DESCRIBE_CONFIGS")),  # DescribeClientQuotas
    _api(49, _of(_CLUSTER, "ALTER_CONFIGS")),  # AlterClientQuotas
    _api(50, _of(_CLUSTER, "DESCRIBE")),  # DescribeUserScramCredentials
    _costly(51, _of(_CLUSTER, "ALTER")),  # AlterUserScramCredentials
    _costly(55, _of(_CLUSTER, "DESCRIBE")),  # DescribeQuorum
    _api(57, _of(_CLUSTER, "ALTER")),  # UpdateFeatures
    _api(
        60, is_open="says where the cluster is; its operations are listed for clients that may `DESCRIBE` it"
    ),  # DescribeCluster
    _costly(61, _of(_TOPIC, "READ")),  # DescribeProducers
    _api(64, _of(_CLUSTER, "ALTER")),  # UnregisterBroker
    _api(65, _of(_TRANSACTION, "DESCRIBE")),  # DescribeTransactions
    _api(66, _of(_TRANSACTION, "DESCRIBE")),  # ListTransactions
    _api(68, _of(_GROUP, "READ"), _of(_TOPIC, "DESCRIBE")),  # ConsumerGroupHeartbeat
    _list(69, _of(_GROUP, "DESCRIBE"), _of(_TOPIC, "DESCRIBE"), division=_DESCRIBED_GROUP_IDS),  # ConsumerGroupDescribe
    _api(71, is_open="says which metrics of its own a client shall push"),  # GetTelemetrySubscriptions
    _api(72, is_open="takes a client's metrics of itself"),  # PushTelemetry
    _api(74, _of(_CLUSTER, "DESCRIBE_CONFIGS")),  # ListConfigResources
    _api(75, _of(_TOPIC, "DESCRIBE")),  # DescribeTopicPartitions
    _api(76, _of(_GROUP, "READ"), _of(_TOPIC, "DESCRIBE")),  # ShareGroupHeartbeat
    _list(77, _of(_GROUP, "DESCRIBE"), _of(_TOPIC, "DESCRIBE"), division=_DESCRIBED_GROUP_IDS),  # ShareGroupDescribe
    _api(78, _of(_GROUP, "READ"), _of(_TOPIC, "READ"), is_long_poll=True),  # ShareFetch
    _api(79, _of(_GROUP, "READ"), _of(_TOPIC, "READ")),  # ShareAcknowledge
    _api(80, _of(_CLUSTER, "ALTER")),  # AddRaftVoter
    _api(81, _of(_CLUSTER, "ALTER")),  # RemoveRaftVoter
    _api(
        88,
        _of(_GROUP, "READ"),
        _of(_TOPIC, "DESCRIBE"),
        _of(_CLUSTER, "CREATE") + _of(_TOPIC, "CREATE"),
        elements_max=LIST_ELEMENTS_MAX,
    ),  # StreamsGroupHeartbeat
    _list(89, _of(_GROUP, "DESCRIBE"), _of(_TOPIC, "DESCRIBE"), division=_DESCRIBED_GROUP_IDS),  # StreamsGroupDescribe
    _costly(90, _of(_GROUP, "DESCRIBE"), _of(_TOPIC, "DESCRIBE")),  # DescribeShareGroupOffsets
    _costly(91, _of(_GROUP, "READ"), _of(_TOPIC, "READ")),  # AlterShareGroupOffsets
    _api(92, _of(_GROUP, "DELETE"), _of(_TOPIC, "READ")),  # DeleteShareGroupOffsets
    _api(10_000, _of(_CLUSTER, "ALTER")),  # ClusterCommand; for the status DESCRIBE is enough, which ALTER implies
    _api(10_001, _of(_CLUSTER, "DESCRIBE")),  # ReplicaDigests
)
BROKER_APIS: Final[Mapping[int, BrokerApi]] = {row.key: row for row in _ROWS}
