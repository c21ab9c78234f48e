"""Admin APIs that need no state of their own, as a client of a whole node sees them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, running_node

from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from hutong.wire.kafka.apis.k17_sasl_handshake import SaslHandshakeRequest
from hutong.wire.kafka.apis.k29_describe_acls import DescribeAclsRequest
from hutong.wire.kafka.apis.k30_create_acls import AclCreation, CreateAclsRequest
from hutong.wire.kafka.apis.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest
from hutong.wire.kafka.apis.k34_alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from hutong.wire.kafka.apis.k35_describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from hutong.wire.kafka.apis.k36_sasl_authenticate import SaslAuthenticateRequest
from hutong.wire.kafka.apis.k38_create_delegation_token import CreateDelegationTokenRequest
from hutong.wire.kafka.apis.k39_renew_delegation_token import RenewDelegationTokenRequest
from hutong.wire.kafka.apis.k40_expire_delegation_token import ExpireDelegationTokenRequest
from hutong.wire.kafka.apis.k41_describe_delegation_token import DescribeDelegationTokenRequest
from hutong.wire.kafka.apis.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from hutong.wire.kafka.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from hutong.wire.kafka.apis.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from hutong.wire.kafka.apis.k55_describe_quorum import AskedPartition, AskedTopic, DescribeQuorumRequest
from hutong.wire.kafka.apis.k60_describe_cluster import DescribeClusterRequest
from hutong.wire.kafka.apis.k64_unregister_broker import UnregisterBrokerRequest
from hutong.wire.kafka.apis.k75_describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from hutong.wire.kafka.apis.k80_add_raft_voter import AddRaftVoterRequest
from hutong.wire.kafka.apis.k81_remove_raft_voter import RemoveRaftVoterRequest
from hutong.wire.kafka.error_codes import ErrorCode

NODE = 1


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[WireClient]:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t", 2)
        yield client


@pytest.mark.parametrize(
    ("request_", "version", "code"),
    [
        (SaslHandshakeRequest("PLAIN"), 1, ErrorCode.ILLEGAL_SASL_STATE),
        (SaslAuthenticateRequest(b"?"), 2, ErrorCode.ILLEGAL_SASL_STATE),
        (DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3, ErrorCode.SECURITY_DISABLED),
        (CreateDelegationTokenRequest(), 3, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (RenewDelegationTokenRequest(b"?", 1), 2, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (ExpireDelegationTokenRequest(b"?", 1), 2, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (DescribeDelegationTokenRequest(None), 3, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (ListPartitionReassignmentsRequest(1000, None), 0, ErrorCode.NONE),
        (UnregisterBrokerRequest(7), 0, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (UnregisterBrokerRequest(NODE), 0, ErrorCode.INVALID_REQUEST),
        (AddRaftVoterRequest("another", 1000, 7, bytes(16)), 0, ErrorCode.INCONSISTENT_CLUSTER_ID),
        (AddRaftVoterRequest(None, 1000, 7, bytes(16)), 1, ErrorCode.UNSUPPORTED_VERSION),
        (RemoveRaftVoterRequest(None, 7, bytes(16)), 0, ErrorCode.UNSUPPORTED_VERSION),
        (DescribeClusterRequest(False, 2), 2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (DescribeClusterRequest(False, 3), 2, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (DescribeClusterRequest(True, 1), 2, ErrorCode.NONE),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else None,
)
async def test_what_is_answered_as_a_whole(client: WireClient, request_: Any, version: int, code: ErrorCode) -> None:
    assert (await client.ask(request_, version)).error_code == code


@pytest.mark.parametrize("permission", [3, -1])
async def test_acls_are_refused_one_by_one(client: WireClient, permission: int) -> None:
    """Without authorization neither their content nor unknown numbers matter."""
    creations = [AclCreation(2, "t", 3, "User:somebody", "*", 3, permission)] * 2
    created = await client.ask(CreateAclsRequest(creations), 3)
    assert [result.error_code for result in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
    deleted = await client.ask(DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, None, 1, permission)]), 3)
    assert [result.error_code for result in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED]
    described = await client.ask(DescribeAclsRequest(1, None, 1, None, None, 1, permission), 3)
    assert described.error_code == ErrorCode.SECURITY_DISABLED


async def test_log_dirs_say_what_partitions_hold(client: WireClient, tmp_path: Path) -> None:
    batch = batch_of(b"x" * 1000, timestamp_ms=0)
    await client.produce(batch, partition=1)
    asked = [DescribableLogDirTopic("t", [0, 1, 1, 9]), DescribableLogDirTopic("none", [0])]
    for version in (1, 5):
        (folder,) = (await client.ask(DescribeLogDirsRequest(asked), version)).results
        assert folder.log_dir == str(tmp_path)
        (topic,) = folder.topics
        assert topic.name == "t"
        assert [(part.partition_index, part.partition_size) for part in topic.partitions] == [(0, 0), (1, len(batch))]
        assert folder.total_bytes >= folder.usable_bytes > 0 if version == 5 else folder.total_bytes == -1
    (folder,) = (await client.ask(DescribeLogDirsRequest(None), 5)).results
    assert {topic.name for topic in folder.topics} >= {"t", "__consumer_offsets"}


async def test_replicas_are_where_they_are(client: WireClient, tmp_path: Path) -> None:
    asked = [AlterReplicaLogDirTopic("t", [0, 9])]
    for path, codes in ((str(tmp_path), [0, 3]), ("/elsewhere", [57, 57])):
        answer = await client.ask(AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, asked)]), 2)
        assert [part.error_code for part in answer.results[0].partitions] == codes


async def test_no_election_is_needed(client: WireClient) -> None:
    asked = [TopicPartitions("t", [0, 9]), TopicPartitions("none", [0])]
    for election, code, each in ((0, 0, 84), (1, 0, 84), (5, 42, 42)):
        answer = await client.ask(ElectLeadersRequest(election, asked), 2)
        assert answer.error_code == code
        unknown = 42 if code else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        found = [part.error_code for topic in answer.replica_election_results for part in topic.partition_result]
        assert found == [each, unknown, unknown]
    everything = await client.ask(ElectLeadersRequest(0, None), 2)
    assert not any(topic.partition_result for topic in everything.replica_election_results)


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ([NODE], ErrorCode.NONE),
        ([NODE + 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([NODE, NODE], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
async def test_reassignments(client: WireClient, replicas: list[int] | None, code: ErrorCode) -> None:
    partitions = [ReassignablePartition(0, replicas), ReassignablePartition(9, replicas)]
    request = AlterPartitionReassignmentsRequest(1000, True, [ReassignableTopic("t", partitions)])
    (topic,) = (await client.ask(request, 1)).responses
    assert [part.error_code for part in topic.partitions] == [code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_the_quorum_is_this_node(client: WireClient) -> None:
    asked = [AskedTopic("__cluster_metadata", [AskedPartition(0)]), AskedTopic("t", [AskedPartition(0)])]
    answer = await client.ask(DescribeQuorumRequest(asked), 2)
    (quorum,), (unknown,) = (topic.partitions for topic in answer.topics)
    assert (quorum.leader_id, [voter.replica_id for voter in quorum.current_voters]) == (NODE, [NODE])
    assert quorum.high_watermark > 0
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [node.node_id for node in answer.nodes] == [NODE]


async def test_everybody_may_do_everything(client: WireClient) -> None:
    asked = MetadataRequest([MetadataRequestTopic(name="t")], False, True, True)
    metadata = await client.ask(asked, 8)
    assert (metadata.cluster_authorized_operations, metadata.topics[0].topic_authorized_operations) == (8096, 3576)
    cluster = await client.ask(DescribeClusterRequest(True), 2)
    assert cluster.cluster_authorized_operations == 8096
    partitions = await client.ask(DescribeTopicPartitionsRequest([TopicRequest("t")]), 0)
    assert partitions.topics[0].topic_authorized_operations == 3576
