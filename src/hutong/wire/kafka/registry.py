"""The supported APIs in one table: dispatch, headers, codecs and the ApiVersions response all read it.

Strategy: this table holds the numbers that every start needs. An API's module, with the tables of its request and
response, is imported when one is first encoded or decoded, so that a start does not pay for unused APIs. A test
compares the numbers with the tables.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Final

from hutong.foundation.errors import ProtocolError

API_VERSIONS_KEY = 18


class UnknownApi(ProtocolError):
    """A request with an unsupported API key: the connection is closed."""

    def __init__(self, api_key: int) -> None:
        super().__init__(f"API key {api_key} is not spoken here")
        self.api_key = api_key


class UnsupportedVersion(ProtocolError):
    """A known API in an unsupported version: the connection is closed, except for ApiVersions (KIP-511).

    ApiVersions answers in version 0 with error 35 and the supported range, and the client asks again.
    """

    def __init__(self, api_key: int, api_version: int) -> None:
        super().__init__(f"API key {api_key} is not spoken in version {api_version}")
        self.api_key = api_key
        self.api_version = api_version


@dataclass(frozen=True)
class Api:
    """One API: `versions` are accepted, `advertised_versions` are listed in ApiVersions (none: not at all).

    `flexible_from` is the first version with compact and tagged fields, None when there is none.
    """

    key: int
    name: str
    versions: range
    flexible_from: int | None
    advertised_versions: range

    def is_flexible(self, api_version: int) -> bool:
        return self.flexible_from is not None and api_version >= self.flexible_from

    @property
    def module_name(self) -> str:
        """The module's name without its package, as `k09_offset_fetch`."""
        return f"k{self.key:02}_{_WORD.sub('_', self.name).lower()}"

    @cached_property
    def request(self) -> type[Any]:
        return self._table("Request")

    @cached_property
    def response(self) -> type[Any]:
        return self._table("Response")

    def _table(self, kind: str) -> type[Any]:
        module = import_module(f"hutong.wire.kafka.apis.{self.module_name}")
        table: type[Any] = getattr(module, self.name + kind)
        return table


_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NEVER: Final = None  # no version is flexible
_ROWS: Final[tuple[tuple[int, str, int, int, int | None], ...]] = (  # key, name, first and last version, flexible from
    (0, "Produce", 3, 13, 9),
    (1, "Fetch", 4, 18, 12),
    (2, "ListOffsets", 1, 11, 6),
    (3, "Metadata", 0, 13, 9),
    (8, "OffsetCommit", 2, 10, 8),
    (9, "OffsetFetch", 1, 10, 6),
    (10, "FindCoordinator", 0, 6, 3),
    (11, "JoinGroup", 0, 9, 6),
    (12, "Heartbeat", 0, 4, 4),
    (13, "LeaveGroup", 0, 5, 4),
    (14, "SyncGroup", 0, 5, 4),
    (15, "DescribeGroups", 0, 6, 5),
    (16, "ListGroups", 0, 5, 3),
    (17, "SaslHandshake", 0, 1, _NEVER),
    (18, "ApiVersions", 0, 4, 3),
    (19, "CreateTopics", 2, 7, 5),
    (20, "DeleteTopics", 1, 6, 4),
    (21, "DeleteRecords", 0, 2, 2),
    (22, "InitProducerId", 0, 5, 2),
    (23, "OffsetForLeaderEpoch", 2, 4, 4),
    (24, "AddPartitionsToTxn", 0, 5, 3),
    (25, "AddOffsetsToTxn", 0, 4, 3),
    (26, "EndTxn", 0, 5, 3),
    (27, "WriteTxnMarkers", 1, 2, 1),
    (28, "TxnOffsetCommit", 0, 5, 3),
    (29, "DescribeAcls", 1, 3, 2),
    (30, "CreateAcls", 1, 3, 2),
    (31, "DeleteAcls", 1, 3, 2),
    (32, "DescribeConfigs", 1, 4, 4),
    (33, "AlterConfigs", 0, 2, 2),
    (34, "AlterReplicaLogDirs", 1, 2, 2),
    (35, "DescribeLogDirs", 1, 5, 2),
    (36, "SaslAuthenticate", 0, 2, 2),
    (37, "CreatePartitions", 0, 3, 2),
    (38, "CreateDelegationToken", 1, 3, 2),
    (39, "RenewDelegationToken", 1, 2, 2),
    (40, "ExpireDelegationToken", 1, 2, 2),
    (41, "DescribeDelegationToken", 1, 3, 2),
    (42, "DeleteGroups", 0, 2, 2),
    (43, "ElectLeaders", 0, 2, 2),
    (44, "IncrementalAlterConfigs", 0, 1, 1),
    (45, "AlterPartitionReassignments", 0, 1, 0),
    (46, "ListPartitionReassignments", 0, 0, 0),
    (47, "OffsetDelete", 0, 0, _NEVER),
    (48, "DescribeClientQuotas", 0, 1, 1),
    (49, "AlterClientQuotas", 0, 1, 1),
    (50, "DescribeUserScramCredentials", 0, 0, 0),
    (51, "AlterUserScramCredentials", 0, 0, 0),
    (55, "DescribeQuorum", 0, 2, 0),
    (57, "UpdateFeatures", 0, 2, 0),
    (60, "DescribeCluster", 0, 2, 0),
    (64, "UnregisterBroker", 0, 0, 0),
    (61, "DescribeProducers", 0, 0, 0),
    (65, "DescribeTransactions", 0, 0, 0),
    (66, "ListTransactions", 0, 2, 0),
    (68, "ConsumerGroupHeartbeat", 0, 1, 0),
    (69, "ConsumerGroupDescribe", 0, 1, 0),
    (71, "GetTelemetrySubscriptions", 0, 0, 0),
    (72, "PushTelemetry", 0, 0, 0),
    (74, "ListConfigResources", 0, 1, 0),
    (75, "DescribeTopicPartitions", 0, 0, 0),
    (76, "ShareGroupHeartbeat", 1, 1, 0),
    (77, "ShareGroupDescribe", 1, 1, 0),
    (78, "ShareFetch", 1, 2, 0),
    (79, "ShareAcknowledge", 1, 2, 0),
    (80, "AddRaftVoter", 0, 1, 0),
    (81, "RemoveRaftVoter", 0, 0, 0),
    (88, "StreamsGroupHeartbeat", 0, 0, 0),
    (89, "StreamsGroupDescribe", 0, 0, 0),
    (90, "DescribeShareGroupOffsets", 0, 1, 0),
    (91, "AlterShareGroupOffsets", 0, 0, 0),
    (92, "DeleteShareGroupOffsets", 0, 0, 0),
    (10_000, "ClusterCommand", 0, 0, 0),
    (10_001, "ReplicaDigests", 0, 0, 0),
)
_ADVERTISED: Final = {
    # Older librdkafka turns compression off unless version 0 is offered (KAFKA-18659); 0 to 2 are refused anyway.
    0: range(14),
    # Our own, far from Kafka's keys: its clients do not hear of them.
    10_000: range(0),
    10_001: range(0),
}


def _api(key: int, name: str, first: int, last: int, flexible_from: int | None) -> Api:
    versions = range(first, last + 1)
    return Api(key, name, versions, flexible_from, _ADVERTISED.get(key, versions))


APIS: Final[dict[int, Api]] = {row[0]: _api(*row) for row in _ROWS}


def api(api_key: int) -> Api:
    """Raises UnknownApi."""
    found = APIS.get(api_key)
    if found is None:
        raise UnknownApi(api_key)
    return found
