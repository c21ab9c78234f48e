"""The scenarios of the admin APIs: like `scenarios`, of which they are a part, with the versions of Kafka 4.3."""

import datetime
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import pytest
from kio.schema.errors import ErrorCode
from kio.serial.errors import OutOfBoundValue
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.compat.scenarios import Place

TIMEOUT: Final = datetime.timedelta(seconds=30)

SASL_HANDSHAKE, SASL_AUTHENTICATE, DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 17, 36, 29, 30, 31
ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS, CREATE_TOKEN, RENEW_TOKEN, EXPIRE_TOKEN, DESCRIBE_TOKEN = (
    34,
    35,
    38,
    39,
    40,
    41,
)
ELECT_LEADERS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS, DESCRIBE_QUORUM, UNREGISTER_BROKER = 43, 45, 46, 55, 64
ADD_RAFT_VOTER, REMOVE_RAFT_VOTER = 80, 81
DESCRIBE_CONFIGS, ALTER_CONFIGS, LIST_CONFIG_RESOURCES = 32, 33, 74
DESCRIBE_QUOTAS, ALTER_QUOTAS, DESCRIBE_SCRAM, ALTER_SCRAM, UPDATE_FEATURES = 48, 49, 50, 51, 57

ADMIN_VERSIONS: Final = {  # key: least version accepted, greatest version, least version advertised
    SASL_HANDSHAKE: (0, 1, 0),
    DESCRIBE_ACLS: (1, 3, 1),
    CREATE_ACLS: (1, 3, 1),
    DELETE_ACLS: (1, 3, 1),
    ALTER_CONFIGS: (0, 2, 0),
    ALTER_REPLICA_LOG_DIRS: (1, 2, 1),
    DESCRIBE_LOG_DIRS: (1, 5, 1),
    SASL_AUTHENTICATE: (0, 2, 0),
    CREATE_TOKEN: (1, 3, 1),
    RENEW_TOKEN: (1, 2, 1),
    EXPIRE_TOKEN: (1, 2, 1),
    DESCRIBE_TOKEN: (1, 3, 1),
    ELECT_LEADERS: (0, 2, 0),
    ALTER_REASSIGNMENTS: (0, 1, 0),
    LIST_REASSIGNMENTS: (0, 0, 0),
    DESCRIBE_QUOTAS: (0, 1, 0),
    ALTER_QUOTAS: (0, 1, 0),
    DESCRIBE_SCRAM: (0, 0, 0),
    ALTER_SCRAM: (0, 0, 0),
    DESCRIBE_QUORUM: (0, 2, 0),
    UPDATE_FEATURES: (0, 2, 0),
    UNREGISTER_BROKER: (0, 0, 0),
    LIST_CONFIG_RESOURCES: (0, 1, 0),
    ADD_RAFT_VOTER: (0, 1, 0),
    REMOVE_RAFT_VOTER: (0, 0, 0),
}


def sasl_handshake(place: "Place", version: int) -> None:
    answer = place.client.call(SASL_HANDSHAKE, version, mechanism="PLAIN")
    assert answer.error_code == ErrorCode.illegal_sasl_state


def sasl_authenticate(place: "Place", version: int) -> None:
    answer = place.client.call(SASL_AUTHENTICATE, version, auth_bytes=b"?")
    assert answer.error_code == ErrorCode.illegal_sasl_state


def describe_acls(place: "Place", version: int) -> None:
    everything = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    names = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    answer = place.client.call(DESCRIBE_ACLS, version, **everything, **names)
    assert answer.error_code == ErrorCode.security_disabled


def create_acls(place: "Place", version: int) -> None:
    acl = {"resource_type": 2, "resource_name": place.topic, "resource_pattern_type": 3, "principal": "User:somebody"}
    creations = [{**acl, "host": "*", "operation": 3, "permission_type": 3}]
    (result,) = place.client.call(CREATE_ACLS, version, creations=creations).results
    assert result.error_code == ErrorCode.security_disabled


def delete_acls(place: "Place", version: int) -> None:
    filters = [{"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}]
    (result,) = place.client.call(DELETE_ACLS, version, filters=filters).filter_results
    assert result.error_code == ErrorCode.security_disabled


def alter_replica_log_dirs(place: "Place", version: int) -> None:
    for path, code in ((_log_dir(place), ErrorCode.none), ("/elsewhere", ErrorCode.log_dir_not_found)):
        dirs = [{"path": path, "topics": [{"name": place.topic, "partitions": [0]}]}]
        (topic,) = place.client.call(ALTER_REPLICA_LOG_DIRS, version, dirs=dirs).results
        assert [part.error_code for part in topic.partitions] == [code]


def _log_dir(place: "Place") -> str:
    (folder,) = place.client.call(DESCRIBE_LOG_DIRS, 4, topics=None).results
    return str(folder.log_dir)


def describe_log_dirs(place: "Place", version: int) -> None:
    topics = [{"topic": place.topic, "partitions": [0]}]
    (folder,) = place.client.call(DESCRIBE_LOG_DIRS, version, topics=topics).results
    (topic,) = folder.topics
    (part,) = topic.partitions
    assert (topic.name, part.partition_index, part.offset_lag, part.is_future_key) == (place.topic, 0, 0, False)
    assert part.partition_size > 0
    if version >= 4:
        assert folder.total_bytes >= folder.usable_bytes > 0


def create_token(place: "Place", version: int) -> None:
    with never():
        owner = {"owner_principal_type": None, "owner_principal_name": None}
        place.client.call(CREATE_TOKEN, version, **owner, max_lifetime=TIMEOUT)


def renew_token(place: "Place", version: int) -> None:
    with never():
        place.client.call(RENEW_TOKEN, version, hmac=b"?", renew_period=TIMEOUT)


def expire_token(place: "Place", version: int) -> None:
    with never():
        place.client.call(EXPIRE_TOKEN, version, hmac=b"?", expiry_time_period=TIMEOUT)


def never() -> AbstractContextManager[object]:
    """With an error Kafka answers -1 for the time, which kio refuses to read."""
    return pytest.raises(OutOfBoundValue, match="negative timestamp")


def describe_token(place: "Place", version: int) -> None:
    answer = place.client.call(DESCRIBE_TOKEN, version, owners=None)
    assert answer.error_code == ErrorCode.delegation_token_request_not_allowed


def elect_leaders(place: "Place", version: int) -> None:
    asked = [{"topic": place.topic, "partitions": [0]}]
    answer = place.client.call(ELECT_LEADERS, version, topic_partitions=asked, timeout=TIMEOUT)
    (topic,) = answer.replica_election_results
    assert [part.error_code for part in topic.partition_result] == [ErrorCode.election_not_needed]


def alter_reassignments(place: "Place", version: int) -> None:
    for replicas, code in ((None, ErrorCode.no_reassignment_in_progress), ([1], ErrorCode.none)):
        topics = [{"name": place.topic, "partitions": [{"partition_index": 0, "replicas": replicas}]}]
        answer = place.client.call(
            ALTER_REASSIGNMENTS, version, topics=topics, timeout=TIMEOUT, allow_replication_factor_change=True
        )
        assert [part.error_code for part in answer.responses[0].partitions] == [code]


def list_reassignments(place: "Place", version: int) -> None:
    answer = place.client.call(LIST_REASSIGNMENTS, version, topics=None, timeout=TIMEOUT)
    assert (answer.error_code, answer.topics) == (ErrorCode.none, ())


def describe_quorum(place: "Place", version: int) -> None:
    asked = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    answer = place.client.call(DESCRIBE_QUORUM, version, topics=asked)
    (part,) = answer.topics[0].partitions
    assert [voter.replica_id for voter in part.current_voters] == [part.leader_id] == [1]
    assert part.high_watermark > 0


def unregister_broker(place: "Place", version: int) -> None:
    answer = place.client.call(UNREGISTER_BROKER, version, broker_id=77)
    assert answer.error_code == ErrorCode.broker_id_not_registered


def add_raft_voter(place: "Place", version: int) -> None:
    answer = place.client.call(ADD_RAFT_VOTER, version, cluster_id="another", voter_id=77, timeout=TIMEOUT)
    assert answer.error_code == ErrorCode.inconsistent_cluster_id


def remove_raft_voter(place: "Place", version: int) -> None:
    answer = place.client.call(REMOVE_RAFT_VOTER, version, cluster_id="another", voter_id=77)
    assert answer.error_code == ErrorCode.inconsistent_cluster_id


def _set_quota(place: "Place", version: int, value: float | None) -> None:
    change = {"key": "producer_byte_rate", "value": value or 0.0, "remove": value is None}
    entries = [{"entity": [{"entity_type": "client-id", "entity_name": place.topic}], "ops": [change]}]
    (entry,) = place.client.call(ALTER_QUOTAS, version, entries=entries).entries
    assert entry.error_code == ErrorCode.none


def _quotas(place: "Place", version: int) -> list[tuple[str, float]]:
    components = [{"entity_type": "client-id", "match_type": 0, "match": place.topic}]
    answer = place.client.call(DESCRIBE_QUOTAS, version, components=components, strict=True)
    assert answer.error_code == ErrorCode.none
    return [(quota.key, quota.value) for entry in answer.entries for quota in entry.values]


def describe_quotas(place: "Place", version: int) -> None:
    assert _quotas(place, version) == []
    _set_quota(place, 1, 1e9)
    until(lambda: _quotas(place, version) == [("producer_byte_rate", 1e9)], what="the quota")
    _set_quota(place, 1, None)


def alter_quotas(place: "Place", version: int) -> None:
    for value in (2e9, 3e9, None):
        _set_quota(place, version, value)
        wanted = [] if value is None else [("producer_byte_rate", value)]
        until(lambda wanted=wanted: _quotas(place, 1) == wanted, what="the quota")  # type: ignore[misc]


def describe_scram(place: "Place", version: int) -> None:
    answer = place.client.call(DESCRIBE_SCRAM, version, users=[{"name": place.topic}])
    assert [result.error_code for result in answer.results] == [ErrorCode.resource_not_found]


def alter_scram(place: "Place", version: int) -> None:
    user = {"name": place.topic, "mechanism": 1}
    credential = {**user, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32}
    for changes, found in (({"upsertions": [credential]}, True), ({"deletions": [user]}, False)):
        (result,) = place.client.call(ALTER_SCRAM, version, **changes).results
        assert result.error_code == ErrorCode.none
        wanted = ErrorCode.none if found else ErrorCode.resource_not_found

        def seen(wanted: ErrorCode = wanted) -> bool:
            (told,) = place.client.call(DESCRIBE_SCRAM, 0, users=[{"name": place.topic}]).results
            return bool(told.error_code == wanted)

        until(seen, what="the credential")
    (result,) = place.client.call(ALTER_SCRAM, version, deletions=[user]).results
    assert result.error_code == ErrorCode.resource_not_found


def update_features(place: "Place", version: int) -> None:
    for name, code in (("group.version", ErrorCode.none), ("nothing.version", ErrorCode.invalid_update_version)):
        updates = [{"feature": name, "max_version_level": 1, "upgrade_type": 1}]
        answer = place.client.call(UPDATE_FEATURES, version, feature_updates=updates, timeout=TIMEOUT)
        assert answer.error_code == code


def alter_configs(place: "Place", version: int) -> None:
    for configs, wanted in (([{"name": "retention.ms", "value": "1234"}], "1234"), ([], "604800000")):
        resources = [{"resource_type": 2, "resource_name": place.topic, "configs": configs}]
        (result,) = place.client.call(ALTER_CONFIGS, version, resources=resources).responses
        assert result.error_code == ErrorCode.none
        asked = [{"resource_type": 2, "resource_name": place.topic, "configuration_keys": ["retention.ms"]}]

        def seen(asked: list[dict[str, object]] = asked, wanted: str = wanted) -> bool:
            (told,) = place.client.call(DESCRIBE_CONFIGS, 4, resources=asked).results
            return [config.value for config in told.configs] == [wanted]

        until(seen, what=f"retention.ms={wanted}")


def list_config_resources(place: "Place", version: int) -> None:
    answer = place.client.call(LIST_CONFIG_RESOURCES, version, resource_types=[2])
    assert answer.error_code == ErrorCode.none
    assert (place.topic in [resource.resource_name for resource in answer.config_resources]) is (version > 0)


ADMIN_SCENARIOS: Final[dict[int, Callable[["Place", int], None]]] = {
    SASL_HANDSHAKE: sasl_handshake,
    DESCRIBE_ACLS: describe_acls,
    CREATE_ACLS: create_acls,
    DELETE_ACLS: delete_acls,
    ALTER_CONFIGS: alter_configs,
    ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
    DESCRIBE_LOG_DIRS: describe_log_dirs,
    SASL_AUTHENTICATE: sasl_authenticate,
    CREATE_TOKEN: create_token,
    RENEW_TOKEN: renew_token,
    EXPIRE_TOKEN: expire_token,
    DESCRIBE_TOKEN: describe_token,
    ELECT_LEADERS: elect_leaders,
    ALTER_REASSIGNMENTS: alter_reassignments,
    LIST_REASSIGNMENTS: list_reassignments,
    DESCRIBE_QUOTAS: describe_quotas,
    ALTER_QUOTAS: alter_quotas,
    DESCRIBE_SCRAM: describe_scram,
    ALTER_SCRAM: alter_scram,
    DESCRIBE_QUORUM: describe_quorum,
    UPDATE_FEATURES: update_features,
    UNREGISTER_BROKER: unregister_broker,
    LIST_CONFIG_RESOURCES: list_config_resources,
    ADD_RAFT_VOTER: add_raft_voter,
    REMOVE_RAFT_VOTER: remove_raft_voter,
}
