"""Authorization as clients see it: hidden names, errors, and rights that end at once when they are revoked."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.every_api import GROUP, TOPIC, TRANSACTION
from tests.unit.broker.rights_scene import RightsScene, rights_scene
from tests.unit.broker.wire_node import batch_of, client_of, running_node

from hutong.foundation.errors import ProtocolError, UsageError
from hutong.security.acls import Operation, ResourceType
from hutong.server.configuration.sections.security import SecuritySettings
from hutong.server.configuration.settings import Settings
from hutong.testing.observe.loopback import CLIENT_ID
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from hutong.wire.kafka.batch.records import TRANSACTIONAL
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.headers import encode_request_frame

NOW_MS = 1_700_000_000_000
READ_TOPIC = (Operation.READ, ResourceType.TOPIC)
WRITE_TOPIC = (Operation.WRITE, ResourceType.TOPIC)
DESCRIBE_TOPIC = (Operation.DESCRIBE, ResourceType.TOPIC)
WRITE_ID = (Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
EVERY_ACL = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RightsScene]:
    async with rights_scene(tmp_path, monkeypatch) as scene:
        yield scene


def produce_request(topic: str = TOPIC, *, acks: int = 1, transactional_id: str | None = None) -> ProduceRequest:
    data = PartitionProduceData(0, memoryview(batch_of(b"v", timestamp_ms=NOW_MS)))
    return ProduceRequest(transactional_id, acks, 1000, [TopicProduceData(topic, partition_data=[data])])


# -- ACLs by the admin APIs


async def test_acls_are_kept_over_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rights_scene(tmp_path, monkeypatch) as scene:
        creation = {"resource_type": 2, "resource_name": "t", "resource_pattern_type": 4, "host": "10.0.0.1"}
        rules = [{"principal": f"User:é{n}", "operation": 3, "permission_type": 2 + n % 2} for n in range(250)]
        created = await scene.ask(scene.admin, 30, 3, creations=[creation | rule for rule in rules])
        assert {(result.error_code, result.error_message) for result in created.results} == {(0, "")}
        version = scene.decisions.version
        again = await scene.ask(scene.admin, 30, 3, creations=[creation | rules[0]] * 2)
        assert [result.error_code for result in again.results] == [0, 0]
        assert scene.decisions.version == version, "it was there already"
    async with rights_scene(tmp_path, monkeypatch) as scene:
        wanted = EVERY_ACL
        found = await scene.ask(scene.admin, 29, 3, **wanted)
        (resource,) = found.resources
        assert (resource.resource_type, resource.resource_name, resource.pattern_type) == (2, "t", 4)
        assert {acl.principal for acl in resource.acls} == {rule["principal"] for rule in rules}
        filters = [wanted | {"permission_type": 2}, wanted | {"principal_filter": "User:é1"}, wanted | {"operation": 4}]
        deleted = await scene.ask(scene.admin, 31, 3, filters=filters)
        assert [len(result.matching_acls) for result in deleted.filter_results] == [125, 1, 0]
    async with rights_scene(tmp_path, monkeypatch) as scene:
        assert len(scene.decisions) == 124


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"resource_name": ""}, ErrorCode.INVALID_REQUEST),
        ({"principal": "alice"}, ErrorCode.INVALID_REQUEST),
        ({"resource_type": 4}, ErrorCode.INVALID_REQUEST),
        ({"resource_type": 1}, ErrorCode.INVALID_REQUEST),
        ({"resource_pattern_type": 2}, ErrorCode.INVALID_REQUEST),
        ({"operation": 99}, ErrorCode.INVALID_REQUEST),
        ({"operation": 1}, ErrorCode.INVALID_REQUEST),
        ({"permission_type": 1}, ErrorCode.INVALID_REQUEST),
        ({"principal": "User:" + "a" * 2000}, ErrorCode.INVALID_REQUEST),
        ({"resource_type": 4, "resource_name": "kafka-cluster"}, ErrorCode.NONE),
    ],
)
async def test_what_no_acl_can_say(scene: RightsScene, fields: dict[str, Any], code: ErrorCode) -> None:
    good = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    created = await scene.ask(scene.admin, 30, 3, creations=[good | fields, good])
    assert [result.error_code for result in created.results] == [code, ErrorCode.NONE]


async def test_what_says_unknown_closes_the_connection(scene: RightsScene) -> None:
    client, unknown = scene.client("ANONYMOUS"), EVERY_ACL | {"resource_type_filter": 0}
    with pytest.raises(ProtocolError):
        await scene.ask(client, 31, 3, filters=[unknown])
    with pytest.raises(ProtocolError):
        await scene.ask(client, 29, 3, **unknown)
    with pytest.raises(ProtocolError):
        await scene.ask(client, 30, 3, creations=[{"resource_type": 0}])
    client.close()


async def test_numbers_that_nobody_knows(scene: RightsScene) -> None:
    scene.grant(READ_TOPIC)
    unknown = EVERY_ACL | {"operation": 99}
    (result,) = (await scene.ask(scene.admin, 31, 3, filters=[unknown])).filter_results
    assert (result.error_code, result.matching_acls) == (ErrorCode.INVALID_REQUEST, [])
    assert (await scene.ask(scene.admin, 29, 3, **unknown)).resources == []


@pytest.mark.parametrize(("count", "name"), [(51, None), (1001, "t")])
async def test_too_many_filters_are_refused(scene: RightsScene, count: int, name: str | None) -> None:
    filters = [EVERY_ACL | {"resource_name_filter": name}] * count
    results = (await scene.ask(scene.admin, 31, 3, filters=filters)).filter_results
    assert {result.error_code for result in results} == {ErrorCode.POLICY_VIOLATION}


async def test_filters_that_overlap_are_each_told_what_they_let_through(scene: RightsScene) -> None:
    created = {"resource_type": 2, "resource_name": "t", "principal": "User:a", "host": "*", "operation": 3}
    await scene.ask(scene.admin, 30, 3, creations=[created | {"permission_type": 3}])
    deleted = await scene.ask(scene.admin, 31, 3, filters=[EVERY_ACL, EVERY_ACL | {"operation": 3}])
    assert [len(result.matching_acls) for result in deleted.filter_results] == [1, 1]
    assert len(scene.decisions) == 0


async def test_without_an_authorizer_nothing_is_asked(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t")
        assert (await client.produce(batch_of(b"v", timestamp_ms=NOW_MS))).error_code == 0


async def test_everybody_may_where_no_acl_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rights_scene(tmp_path, monkeypatch, allow_everyone_if_no_acl_found=True) as scene:
        await scene.admin.create(TOPIC)
        alice = scene.client()
        assert (await alice.ask(produce_request(), 9)).responses[0].partition_responses[0].error_code == 0
        scene.grant(READ_TOPIC, name=TOPIC)
        assert (await alice.ask(produce_request(), 9)).responses[0].partition_responses[0].error_code == DENIED
        alice.close()


# -- what is hidden, and what is told


async def test_topics_that_may_not_be_seen_are_hidden(scene: RightsScene) -> None:
    for name in ("seen", "unseen"):
        await scene.admin.create(name)
    scene.grant(DESCRIBE_TOPIC, name="seen")
    alice = scene.client()
    everything = await scene.ask(alice, 3, 12, topics=None)
    assert [topic.name for topic in everything.topics] == ["seen"]
    paged = await scene.ask(alice, 75, 0, response_partition_limit=100)
    assert [topic.name for topic in paged.topics] == ["seen"]
    named = await scene.ask(alice, 3, 12, topics=[{"name": name} for name in ("seen", "unseen", "nothing")])
    assert [topic.error_code for topic in named.topics] == [0, DENIED, DENIED], "whether it is there is not told"
    assert not any(named.topics[1].topic_id)
    unseen = scene.broker.topics.get("unseen")
    assert unseen is not None
    scene.topic_ids = {"unseen": unseen.topic_id, "other": b"o" * 16}
    asked = [{"topic_id": name, "name": None} for name in scene.topic_ids]
    by_id = await scene.ask(alice, 3, 12, topics=asked)
    assert [(topic.error_code, topic.name) for topic in by_id.topics] == [
        (DENIED, None),
        (ErrorCode.UNKNOWN_TOPIC_ID, None),
    ]
    alice.close()


async def test_what_one_may_do_is_told_as_bits(scene: RightsScene) -> None:
    await scene.populate()
    scene.grant(READ_TOPIC, name=TOPIC)
    scene.grant((Operation.DESCRIBE, ResourceType.GROUP))
    alice = scene.client()
    about = {"topics": [{"name": TOPIC}], "include_topic_authorized_operations": True}
    answer = await scene.ask(alice, 3, 8, include_cluster_authorized_operations=True, **about)
    assert answer.topics[0].topic_authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert answer.cluster_authorized_operations == 0
    groups = await scene.ask(alice, 15, 5, groups=[GROUP], include_authorized_operations=True)
    assert groups.groups[0].authorized_operations == 1 << Operation.DESCRIBE
    scene.grant((Operation.ALTER, ResourceType.CLUSTER))
    cluster = await scene.ask(alice, 60, 0, include_cluster_authorized_operations=True)
    assert cluster.cluster_authorized_operations == 1 << Operation.ALTER | 1 << Operation.DESCRIBE
    alice.close()
    cluster = await scene.ask(scene.admin, 60, 0, include_cluster_authorized_operations=True)
    assert cluster.cluster_authorized_operations == sum(1 << number for number in (5, 7, 8, 9, 10, 11, 12))


async def test_all_offsets_of_a_group_are_those_of_topics_that_may_be_seen(scene: RightsScene) -> None:
    await scene.populate()
    scene.grant((Operation.DESCRIBE, ResourceType.GROUP))
    alice = scene.client()
    asked = {"group_id": GROUP, "topics": None}
    assert (await scene.ask(alice, 9, 7, **asked)).topics == []
    assert (await scene.ask(alice, 9, 8, groups=[asked])).groups[0].topics == []
    scene.grant(DESCRIBE_TOPIC)
    answer = await scene.ask(alice, 9, 8, groups=[asked])
    assert [topic.name for topic in answer.groups[0].topics] == [TOPIC]
    alice.close()


async def test_who_may_not_delete_a_topic_by_its_id_is_told_its_name_only_if_he_may_see_it(scene: RightsScene) -> None:
    await scene.populate()
    alice = scene.client()
    gone = {"topics": [{"topic_id": TOPIC, "name": None}], "timeout_ms": 1000}
    (result,) = (await scene.ask(alice, 20, 6, **gone)).responses
    assert (result.error_code, result.name) == (DENIED, None)
    scene.grant(DESCRIBE_TOPIC)
    (result,) = (await scene.ask(alice, 20, 6, **gone)).responses
    assert (result.error_code, result.name) == (DENIED, TOPIC)
    alice.close()


async def test_the_settings_of_a_new_topic_are_not_told_to_everybody(scene: RightsScene) -> None:
    scene.grant((Operation.CREATE, ResourceType.TOPIC))
    alice = scene.client()
    new = {"name": "new", "num_partitions": 2, "replication_factor": 1}
    (result,) = (await scene.ask(alice, 19, 7, topics=[new], timeout_ms=1000)).topics
    assert (result.error_code, result.topic_config_error_code) == (0, DENIED)
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, [])
    alice.close()


async def test_a_pattern_tells_nothing_of_topics_that_may_not_be_seen(scene: RightsScene) -> None:
    for name in ("seen", "unseen"):
        await scene.admin.create(name)
    scene.grant(DESCRIBE_TOPIC, name="seen")
    scene.grant((Operation.READ, ResourceType.GROUP))
    alice = scene.client()
    joining = {"group_id": "g", "member_id": "m", "rebalance_timeout_ms": 10_000, "topic_partitions": []}
    joined = await scene.ask(alice, 68, 1, subscribed_topic_regex=".*seen", subscribed_topic_names=None, **joining)
    seen = scene.broker.topics.get("seen")
    assert seen is not None
    assert [topic.topic_id for topic in joined.assignment.topic_partitions] == [seen.topic_id]
    alice.close()


# -- rights that are taken away


async def test_a_right_that_is_taken_away_stops_a_producer_that_runs(scene: RightsScene) -> None:
    await scene.admin.create(TOPIC)
    scene.grant(WRITE_TOPIC)
    client = scene.client()
    frame = b"".join(encode_request_frame(produce_request(), 9, 1, CLIENT_ID))
    await client.ask(produce_request(), 9)
    path = client._peer.express
    assert path is not None, "the short way for a producer that repeats itself"
    taken = path.take_requests(frame, 10)
    assert taken is not None
    scene.revoke(WRITE_TOPIC)
    assert path.take_requests(frame, 10) is None
    assert (await client.ask(produce_request(), 9)).responses[0].partition_responses[0].error_code == DENIED
    assert client._peer.express is None
    scene.grant(WRITE_TOPIC)
    assert (await client.ask(produce_request(), 9)).responses[0].partition_responses[0].error_code == 0
    client.close()


async def test_a_right_that_is_taken_away_is_missed_in_a_fetch_session(scene: RightsScene) -> None:
    await scene.admin.create(TOPIC)
    scene.grant(READ_TOPIC)
    alice = scene.client()
    asked = FetchTopic(TOPIC, partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])
    first = await alice.ask(FetchRequest(max_bytes=1000, session_epoch=0, topics=[asked]), 12)
    assert first.session_id
    assert first.responses[0].partitions[0].error_code == 0
    scene.revoke(READ_TOPIC)
    await scene.admin.produce(batch_of(b"secret", timestamp_ms=NOW_MS))
    later = FetchRequest(max_bytes=1000, session_id=first.session_id, session_epoch=1, max_wait_ms=5000, min_bytes=1)
    (data,) = (await alice.ask(later, 12)).responses[0].partitions
    assert (data.error_code, bytes(data.records or b"")) == (DENIED, b"")
    alice.close()


async def test_a_waiting_fetch_is_not_served_after_its_right_is_gone(scene: RightsScene) -> None:
    await scene.admin.create(TOPIC)
    scene.grant(READ_TOPIC)
    alice = scene.client()
    asked = FetchTopic(TOPIC, partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])
    request = FetchRequest(max_bytes=1000, session_epoch=-1, max_wait_ms=5000, min_bytes=1, topics=[asked])
    waiting = asyncio.ensure_future(alice.ask(request, 12))
    await asyncio.sleep(0)
    assert len(scene.broker.fetches) == 1
    scene.revoke(READ_TOPIC)
    await scene.admin.produce(batch_of(b"secret", timestamp_ms=NOW_MS))
    (data,) = (await waiting).responses[0].partitions
    assert (data.error_code, bytes(data.records or b"")) == (DENIED, b"")
    alice.close()


# -- refusals of a whole request, and those that the CVEs teach


async def test_a_refused_produce_without_acknowledgement_closes_the_connection(scene: RightsScene) -> None:
    await scene.admin.create(TOPIC)
    alice = scene.client()
    with pytest.raises(ProtocolError):
        await alice.ask(produce_request(acks=0), 9)
    with pytest.raises(ProtocolError):
        await alice.ask(produce_request(acks=0, transactional_id="x"), 9)
    alice.close()


async def test_a_transactional_batch_without_its_id_is_refused(scene: RightsScene) -> None:
    """CVE-2018-17196: the flag in the batch counts, not what the request leaves out."""
    await scene.admin.create(TOPIC)
    scene.grant(WRITE_TOPIC)
    producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    batch = batch_of(b"v", timestamp_ms=NOW_MS, attributes=TRANSACTIONAL, **producer)
    request = produce_request()
    request.topic_data[0].partition_data[0].records = memoryview(batch)
    alice = scene.client()
    (answer,) = (await alice.ask(request, 9)).responses
    assert answer.partition_responses[0].error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    alice.close()


async def test_who_may_not_use_the_id_is_not_told_which_partitions_there_are(scene: RightsScene) -> None:
    await scene.admin.create(TOPIC)
    scene.grant(WRITE_TOPIC)
    alice = scene.client()
    for topic in (TOPIC, "nothing"):
        (answer,) = (await alice.ask(produce_request(topic, transactional_id="x"), 9)).responses
        assert [each.error_code for each in answer.partition_responses] == [
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        ]
    alice.close()


async def test_a_produce_does_not_add_to_a_transaction_what_may_not_be_written(scene: RightsScene) -> None:
    """KIP-890: from version 12 on partitions join a transaction by being produced to; not those that are refused."""
    await scene.populate()
    scene.grant(WRITE_ID)
    alice = scene.client()
    answer = await alice.ask(produce_request(transactional_id=TRANSACTION), 12)
    assert answer.responses[0].partition_responses[0].error_code == DENIED
    transaction = scene.broker.transactions.get(TRANSACTION)
    assert transaction is not None
    assert not transaction.record.partitions
    alice.close()


async def test_a_client_that_says_it_is_a_follower_reads_nothing(scene: RightsScene) -> None:
    """CVE-2018-1288: a replica id of a client's choice gives no rights, and takes even those away that he has."""
    await scene.admin.create(TOPIC)
    await scene.admin.produce(batch_of(b"secret", timestamp_ms=NOW_MS))
    alice = scene.client()
    scene.grant(READ_TOPIC)
    asked = FetchTopic(TOPIC, partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])
    request = FetchRequest(replica_id=2, max_bytes=1000, session_epoch=-1, topics=[asked])
    (data,) = (await alice.ask(request, 12)).responses[0].partitions
    assert data.error_code == DENIED
    assert (await scene.ask(alice, 24, 4, transactions=[])).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    scene.revoke(READ_TOPIC)
    scene.grant((Operation.CLUSTER_ACTION, ResourceType.CLUSTER))
    (data,) = (await alice.ask(request, 12)).responses[0].partitions
    assert data.error_code == 0
    alice.close()


async def test_a_deny_beats_what_the_wildcard_allows(scene: RightsScene) -> None:
    await scene.admin.create(TOPIC)
    scene.grant(WRITE_TOPIC)
    scene.grant(WRITE_TOPIC, name=TOPIC, deny=True)
    alice, bob = scene.client(), scene.client("bob")
    for client in (alice, bob):
        assert (await client.ask(produce_request(), 9)).responses[0].partition_responses[0].error_code == DENIED
        client.close()


# -- figures and the log


async def test_refusals_are_counted_and_told_in_one_line_at_a_time(
    scene: RightsScene, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.admin.create(TOPIC)
    alice = scene.client("alice\nis admin")
    denied = scene.broker.authorizer.denied_total
    with caplog.at_level(logging.INFO, "hutong.authorizer"):
        for _ in range(3):
            await alice.ask(produce_request(), 9)
        await scene.ask(alice, 3, 12, topics=None)  # hidden, not refused
    assert denied[ResourceType.TOPIC] == 3
    (line,) = [record.getMessage() for record in caplog.records if record.name == "hutong.authorizer"]
    assert "User:alice\\nis admin" in line
    assert "WRITE TOPIC 't'" in line
    assert "127.0.0.1" in line
    alice.close()


@pytest.mark.parametrize("user", ["admin", "User:", ":admin"])
async def test_a_super_user_is_a_principal(tmp_path: Path, user: str) -> None:
    settings = Settings(security=SecuritySettings(authorize=True, super_users=(f"User:root; {user}",)))
    with pytest.raises(UsageError, match=r"security\.super_users"):
        async with running_node(tmp_path, settings):
            raise AssertionError("it started")


async def test_a_client_that_may_not_use_a_group_is_told_by_name_or_number_as_by_kafka(scene: RightsScene) -> None:
    alice = scene.client()
    one = await scene.ask(alice, 10, 2, key=GROUP, key_type=0)
    assert (one.error_code, one.error_message) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")
    many = await scene.ask(alice, 10, 4, key_type=0, coordinator_keys=[GROUP])
    assert [each.error_message for each in many.coordinators] == [""]
