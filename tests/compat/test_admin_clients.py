"""What the admin clients of confluent-kafka and kafka-python have beyond topics and groups: done, or refused.

Features, settings of nodes and loggers, elections, reassignments, log dirs, credentials, ACLs, the quorum.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPythonPartition
from kafka.admin import ConfigResource as KafkaPythonResource
from kafka.admin import ConfigResourceType
from tests.compat.report import CLUSTER_NODES, NODE_DOWN
from tests.support.node import IS_HUTONG
from tests.support.waiting import until

TIMEOUT_S = 30
SECURITY_DISABLED, PREFERRED_LEADER_NOT_AVAILABLE, ELECTION_NOT_NEEDED, RESOURCE_NOT_FOUND = 54, 80, 84, 91
SETTING = "log.segment.delete.delay.ms"


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def python_admin(bootstrap: str) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def refused(future: Any) -> int:
    with pytest.raises(KafkaException) as caught:
        future.result(TIMEOUT_S)
    return int(caught.value.args[0].code())


def value_of(admin: AdminClient, resource: ConfigResource, name: str) -> Any:
    (future,) = admin.describe_configs([resource]).values()
    return future.result(TIMEOUT_S)[name].value


def test_confluent_dry_runs_and_assignments(admin: AdminClient, name: str) -> None:
    if CLUSTER_NODES > 1:
        pytest.skip("a cluster places partition groups, and takes no assignments")
    topic = NewTopic(name, 2, replica_assignment=[[1], [1]], config={"retention.ms": "5000"})
    admin.create_topics([topic], validate_only=True)[name].result(TIMEOUT_S)
    assert name not in admin.list_topics(timeout=TIMEOUT_S).topics
    admin.create_topics([topic])[name].result(TIMEOUT_S)
    grown = NewPartitions(name, 4, replica_assignment=[[1], [1]])
    admin.create_partitions([grown], validate_only=True)[name].result(TIMEOUT_S)
    admin.create_partitions([grown])[name].result(TIMEOUT_S)
    until(lambda: len(admin.list_topics(name, TIMEOUT_S).topics[name].partitions) == 4, what="four partitions")
    elsewhere = NewPartitions(name, 5, replica_assignment=[[7]])
    assert refused(admin.create_partitions([elsewhere])[name]) == 39


def test_confluent_settings_of_the_node(admin: AdminClient, broker_id: int) -> None:
    node = ConfigResource(ConfigResource.Type.BROKER, str(broker_id))
    before = value_of(admin, node, SETTING)
    for operation, value, seen in ((AlterConfigOpType.SET, "61000", "61000"), (AlterConfigOpType.DELETE, None, before)):
        entry = ConfigEntry(SETTING, value, incremental_operation=operation)
        asked = ConfigResource(ConfigResource.Type.BROKER, str(broker_id), incremental_configs=[entry])
        (future,) = admin.incremental_alter_configs([asked]).values()
        future.result(TIMEOUT_S)
        until(lambda seen=seen: value_of(admin, node, SETTING) == seen, what=f"{SETTING}={seen}")  # type: ignore[misc]
    fixed = ConfigEntry("node.id", "7", incremental_operation=AlterConfigOpType.SET)
    asked = ConfigResource(ConfigResource.Type.BROKER, str(broker_id), incremental_configs=[fixed])
    (future,) = admin.incremental_alter_configs([asked]).values()
    assert refused(future) == 42


def test_confluent_replaces_all_settings(admin: AdminClient, name: str) -> None:
    admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "5000"})])[name].result(TIMEOUT_S)
    asked = ConfigResource(ConfigResource.Type.TOPIC, name, set_config={"max.message.bytes": "2000"})
    with pytest.warns(DeprecationWarning, match="alter_configs"):
        (future,) = admin.alter_configs([asked]).values()
    future.result(TIMEOUT_S)
    plain = ConfigResource(ConfigResource.Type.TOPIC, name)
    until(lambda: value_of(admin, plain, "max.message.bytes") == "2000", what="the new setting")
    assert value_of(admin, plain, "retention.ms") == "604800000"


def test_confluent_credentials(admin: AdminClient, name: str) -> None:
    def asked() -> Any:
        futures: Any = admin.describe_user_scram_credentials([name])
        return futures[name]

    assert refused(asked()) == RESOURCE_NOT_FOUND
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(name, info, b"secret")])[name].result(TIMEOUT_S)

    def described() -> Any:
        try:
            return asked().result(TIMEOUT_S).scram_credential_infos
        except KafkaException:
            return None

    (found,) = until(described, what="the credential")
    assert (found.mechanism, found.iterations) == (ScramMechanism.SCRAM_SHA_512, 8192)
    gone = UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([gone])[name].result(TIMEOUT_S)
    until(lambda: described() is None, what="the credential is gone")


def test_confluent_acls_are_refused(admin: AdminClient, name: str) -> None:
    acl = (ResourceType.TOPIC, name, ResourcePatternType.LITERAL, "User:somebody", "*")
    binding = AclBinding(*acl, AclOperation.READ, AclPermissionType.ALLOW)
    chosen = AclBindingFilter(*acl, AclOperation.READ, AclPermissionType.ALLOW)
    assert refused(admin.create_acls([binding])[binding]) == SECURITY_DISABLED
    assert admin.describe_acls(chosen).result(TIMEOUT_S) == []  # librdkafka keeps the refusal to itself
    assert refused(admin.delete_acls([chosen])[chosen]) == SECURITY_DISABLED


def test_confluent_elections_and_operations(admin: AdminClient, name: str) -> None:
    from confluent_kafka import ElectionType

    admin.create_topics([NewTopic(name, 1, 1)])[name].result(TIMEOUT_S)
    partition = TopicPartition(name, 0)
    elected = admin.elect_leaders(ElectionType.PREFERRED, [partition]).result(TIMEOUT_S)
    errors = [None if error is None else error.code() for error in elected.values()]
    # In a cluster another node may lead than the preferred one, which may be down.
    possible = [ELECTION_NOT_NEEDED, *((None, PREFERRED_LEADER_NOT_AVAILABLE) if CLUSTER_NODES > 1 else ())]
    assert len(errors) == 1
    assert errors[0] in possible
    cluster = admin.describe_cluster(include_authorized_operations=True).result(TIMEOUT_S)
    assert AclOperation.ALTER in cluster.authorized_operations


def test_kafka_python_moves_and_elects(python_admin: Any, broker_id: int, name: str) -> None:
    python_admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})
    partition = KafkaPythonPartition(name, 0)

    # In a cluster, as in Kafka's, a node may hear of a new topic a moment after its creator did.
    def described_partitions() -> Any:
        (described,) = python_admin.describe_topics([name])
        return described["partitions"]

    (described_partition,) = until(described_partitions, what="the new topic")
    replicas = described_partition["replica_nodes"]
    assert python_admin.alter_partition_reassignments({partition: replicas}) == {partition: None}
    assert python_admin.list_partition_reassignments() == {}
    (cancelled,) = python_admin.alter_partition_reassignments({partition: None}).values()
    assert cancelled.errno == 85
    python_admin.elect_leaders(0, {name: [0]}, raise_errors=not NODE_DOWN)
    broker = next(told for told in python_admin.describe_log_dirs() if told.get("broker", broker_id) == broker_id)
    folder = broker["log_dirs"][0]["log_dir"] if "log_dirs" in broker else broker["results"][0]["log_dir"]
    (outcome,) = python_admin.alter_replica_log_dirs({(name, 0, broker_id): folder}).values()
    assert outcome.errno == 0


def test_kafka_python_features_and_quorum(python_admin: Any, brokers: dict[int, str]) -> None:
    features = python_admin.describe_features()
    assert features["group.version"]["finalized"] == (1, 1)
    assert features["transaction.version"]["supported"] == (0, 2)
    assert set(python_admin.update_features({"group.version": 1}, validate_only=True).values()) <= {"OK"}
    quorum = python_admin.describe_metadata_quorum()
    (leader,) = re.findall(r'"leader_id": (\d+)', json.dumps(quorum, default=str))
    assert int(leader) in brokers


def test_kafka_python_lists_what_has_settings(python_admin: Any, broker_id: int) -> None:
    listed, node = python_admin.list_config_resources(), str(broker_id)
    assert node in next(names for kind, names in listed.items() if kind.lower() == "broker")
    loggers = KafkaPythonResource(ConfigResourceType.BROKER_LOGGER, node)
    (told,) = python_admin.describe_configs([loggers], config_filter="all").values()
    assert "root" in told[node]
    if IS_HUTONG:
        assert "hutong.kafka" in told[node]
