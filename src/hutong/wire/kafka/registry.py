"""The APIs we speak, in one table: dispatch, headers, codecs and the ApiVersions response all read this."""

from dataclasses import dataclass
from typing import Any

from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.apis.k00_produce import ProduceRequest, ProduceResponse
from hutong.wire.kafka.apis.k01_fetch import FetchRequest, FetchResponse
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsRequest, ListOffsetsResponse
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataResponse
from hutong.wire.kafka.apis.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse
from hutong.wire.kafka.apis.k09_offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from hutong.wire.kafka.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest, JoinGroupResponse
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from hutong.wire.kafka.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from hutong.wire.kafka.apis.k15_describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from hutong.wire.kafka.apis.k16_list_groups import ListGroupsRequest, ListGroupsResponse
from hutong.wire.kafka.apis.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from hutong.wire.kafka.apis.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from hutong.wire.kafka.apis.k19_create_topics import CreateTopicsRequest, CreateTopicsResponse
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from hutong.wire.kafka.apis.k21_delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from hutong.wire.kafka.apis.k23_offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from hutong.wire.kafka.apis.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from hutong.wire.kafka.apis.k25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from hutong.wire.kafka.apis.k26_end_txn import EndTxnRequest, EndTxnResponse
from hutong.wire.kafka.apis.k27_write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from hutong.wire.kafka.apis.k28_txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from hutong.wire.kafka.apis.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse
from hutong.wire.kafka.apis.k30_create_acls import CreateAclsRequest, CreateAclsResponse
from hutong.wire.kafka.apis.k31_delete_acls import DeleteAclsRequest, DeleteAclsResponse
from hutong.wire.kafka.apis.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from hutong.wire.kafka.apis.k33_alter_configs import AlterConfigsRequest, AlterConfigsResponse
from hutong.wire.kafka.apis.k34_alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from hutong.wire.kafka.apis.k35_describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from hutong.wire.kafka.apis.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from hutong.wire.kafka.apis.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from hutong.wire.kafka.apis.k38_create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from hutong.wire.kafka.apis.k39_renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from hutong.wire.kafka.apis.k40_expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from hutong.wire.kafka.apis.k41_describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from hutong.wire.kafka.apis.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from hutong.wire.kafka.apis.k43_elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from hutong.wire.kafka.apis.k44_incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from hutong.wire.kafka.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from hutong.wire.kafka.apis.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from hutong.wire.kafka.apis.k47_offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from hutong.wire.kafka.apis.k48_describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from hutong.wire.kafka.apis.k49_alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from hutong.wire.kafka.apis.k50_describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from hutong.wire.kafka.apis.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from hutong.wire.kafka.apis.k55_describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from hutong.wire.kafka.apis.k57_update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from hutong.wire.kafka.apis.k60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from hutong.wire.kafka.apis.k61_describe_producers import DescribeProducersRequest, DescribeProducersResponse
from hutong.wire.kafka.apis.k64_unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from hutong.wire.kafka.apis.k65_describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from hutong.wire.kafka.apis.k66_list_transactions import ListTransactionsRequest, ListTransactionsResponse
from hutong.wire.kafka.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from hutong.wire.kafka.apis.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from hutong.wire.kafka.apis.k74_list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from hutong.wire.kafka.apis.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from hutong.wire.kafka.apis.k76_share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from hutong.wire.kafka.apis.k77_share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from hutong.wire.kafka.apis.k78_share_fetch import ShareFetchRequest, ShareFetchResponse
from hutong.wire.kafka.apis.k79_share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from hutong.wire.kafka.apis.k80_add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from hutong.wire.kafka.apis.k81_remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from hutong.wire.kafka.apis.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from hutong.wire.kafka.apis.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from hutong.wire.kafka.apis.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from hutong.wire.kafka.schema import message_info

API_VERSIONS_KEY = 18


class UnknownApi(ProtocolError):
    """A request whose API key we do not speak: the connection is closed."""

    def __init__(self, api_key: int) -> None:
        super().__init__(f"API key {api_key} is not spoken here")
        self.api_key = api_key


class UnsupportedVersion(ProtocolError):
    """A known API in a version we do not speak: the connection is closed, except for ApiVersions (KIP-511).

    There the client gets the version 0 body with error 35 and our range, and asks again.
    """

    def __init__(self, api_key: int, api_version: int) -> None:
        super().__init__(f"API key {api_key} is not spoken in version {api_version}")
        self.api_key = api_key
        self.api_version = api_version


@dataclass(frozen=True, slots=True)
class Api:
    """One API: `versions` are accepted, `advertised_versions` are told to clients.

    `flexible_from` is the first version with compact and tagged fields, None when there is none.
    """

    key: int
    name: str
    versions: range
    flexible_from: int | None
    advertised_versions: range
    request: type[Any]
    response: type[Any]

    def is_flexible(self, api_version: int) -> bool:
        return self.flexible_from is not None and api_version >= self.flexible_from


def _api(request: type[Any], response: type[Any], advertised_versions: range | None = None) -> Api:
    info = message_info(request)
    assert info.versions == message_info(response).versions
    assert info.flexible == message_info(response).flexible
    flexible_from = info.flexible.first if info.flexible else None
    name = info.name.removesuffix("Request")
    return Api(
        info.api_key, name, info.versions, flexible_from, advertised_versions or info.versions, request, response
    )


APIS: dict[int, Api] = {
    entry.key: entry
    for entry in (
        # Older librdkafka turns compression off unless version 0 is offered (KAFKA-18659); 0 to 2 are refused anyway.
        _api(ProduceRequest, ProduceResponse, range(14)),
        _api(FetchRequest, FetchResponse),
        _api(ListOffsetsRequest, ListOffsetsResponse),
        _api(MetadataRequest, MetadataResponse),
        _api(OffsetCommitRequest, OffsetCommitResponse),
        _api(OffsetFetchRequest, OffsetFetchResponse),
        _api(FindCoordinatorRequest, FindCoordinatorResponse),
        _api(JoinGroupRequest, JoinGroupResponse),
        _api(HeartbeatRequest, HeartbeatResponse),
        _api(LeaveGroupRequest, LeaveGroupResponse),
        _api(SyncGroupRequest, SyncGroupResponse),
        _api(DescribeGroupsRequest, DescribeGroupsResponse),
        _api(ListGroupsRequest, ListGroupsResponse),
        _api(SaslHandshakeRequest, SaslHandshakeResponse),
        _api(ApiVersionsRequest, ApiVersionsResponse),
        _api(CreateTopicsRequest, CreateTopicsResponse),
        _api(DeleteTopicsRequest, DeleteTopicsResponse),
        _api(DeleteRecordsRequest, DeleteRecordsResponse),
        _api(InitProducerIdRequest, InitProducerIdResponse),
        _api(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
        _api(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
        _api(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
        _api(EndTxnRequest, EndTxnResponse),
        _api(WriteTxnMarkersRequest, WriteTxnMarkersResponse),
        _api(TxnOffsetCommitRequest, TxnOffsetCommitResponse),
        _api(DescribeAclsRequest, DescribeAclsResponse),
        _api(CreateAclsRequest, CreateAclsResponse),
        _api(DeleteAclsRequest, DeleteAclsResponse),
        _api(DescribeConfigsRequest, DescribeConfigsResponse),
        _api(AlterConfigsRequest, AlterConfigsResponse),
        _api(AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse),
        _api(DescribeLogDirsRequest, DescribeLogDirsResponse),
        _api(SaslAuthenticateRequest, SaslAuthenticateResponse),
        _api(CreatePartitionsRequest, CreatePartitionsResponse),
        _api(CreateDelegationTokenRequest, CreateDelegationTokenResponse),
        _api(RenewDelegationTokenRequest, RenewDelegationTokenResponse),
        _api(ExpireDelegationTokenRequest, ExpireDelegationTokenResponse),
        _api(DescribeDelegationTokenRequest, DescribeDelegationTokenResponse),
        _api(DeleteGroupsRequest, DeleteGroupsResponse),
        _api(ElectLeadersRequest, ElectLeadersResponse),
        _api(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
        _api(AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse),
        _api(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
        _api(OffsetDeleteRequest, OffsetDeleteResponse),
        _api(DescribeClientQuotasRequest, DescribeClientQuotasResponse),
        _api(AlterClientQuotasRequest, AlterClientQuotasResponse),
        _api(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse),
        _api(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse),
        _api(DescribeQuorumRequest, DescribeQuorumResponse),
        _api(UpdateFeaturesRequest, UpdateFeaturesResponse),
        _api(DescribeClusterRequest, DescribeClusterResponse),
        _api(UnregisterBrokerRequest, UnregisterBrokerResponse),
        _api(DescribeProducersRequest, DescribeProducersResponse),
        _api(DescribeTransactionsRequest, DescribeTransactionsResponse),
        _api(ListTransactionsRequest, ListTransactionsResponse),
        _api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
        _api(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
        _api(ListConfigResourcesRequest, ListConfigResourcesResponse),
        _api(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
        _api(ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse),
        _api(ShareGroupDescribeRequest, ShareGroupDescribeResponse),
        _api(ShareFetchRequest, ShareFetchResponse),
        _api(ShareAcknowledgeRequest, ShareAcknowledgeResponse),
        _api(AddRaftVoterRequest, AddRaftVoterResponse),
        _api(RemoveRaftVoterRequest, RemoveRaftVoterResponse),
        _api(DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse),
        _api(AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse),
        _api(DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse),
    )
}


def api(api_key: int) -> Api:
    """Raises UnknownApi."""
    found = APIS.get(api_key)
    if found is None:
        raise UnknownApi(api_key)
    return found
