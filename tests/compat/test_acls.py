"""ACLs by the admin clients of others: made, listed, deleted, and what a client sees whose right is taken away."""

import pathlib
import secrets
from collections.abc import Iterator
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.compat.kafka_python_suite import NODE_SETTINGS, run_suite
from tests.support.confluent import DEADLINE_S, POLL_S
from tests.support.kafka_tools import Tools
from tests.support.node import Node
from tests.support.waiting import until

PASSWORD: Final = "a password"
TOOL_S: Final = 60.0
ANY: Final[Any] = None


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    settings = (
        "kafka.listeners=PLAINTEXT://127.0.0.1:0 SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.allow_without_tls=true",
        "security.authorize=true",
        "security.super_users=User:ANONYMOUS",
    )
    with Node(tmp_path_factory.mktemp("acls"), *settings, listens=False) as node:
        yield node


@pytest.fixture
def admin(node: Node) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.address})


@pytest.fixture
def user(node: Node, admin: AdminClient) -> str:
    """A user whom nothing is allowed yet."""
    name = f"user-{secrets.token_hex(4)}"
    credential = UserScramCredentialUpsertion(
        name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), PASSWORD.encode()
    )
    for done in admin.alter_user_scram_credentials([credential]).values():
        done.result(DEADLINE_S)
    return name


def settings_of(node: Node, user: str) -> dict[str, Any]:
    doors = dict(door.split("://") for door in node.process.fields["listeners"].split(","))
    return {
        "bootstrap.servers": doors["SASL_PLAINTEXT"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }


def allow(user: str, topic: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )


def every_acl_of(user: str) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.ANY,
        ANY,
        ResourcePatternType.ANY,
        f"User:{user}",
        ANY,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def create(admin: AdminClient, *acls: AclBinding) -> None:
    for done in admin.create_acls(list(acls)).values():
        done.result(DEADLINE_S)


def test_confluent_makes_lists_and_deletes(admin: AdminClient, user: str) -> None:
    literal = allow(user, "t", AclOperation.READ)
    prefixed = AclBinding(
        ResourceType.GROUP,
        "team-",
        ResourcePatternType.PREFIXED,
        f"User:{user}",
        "10.0.0.1",
        AclOperation.ALL,
        AclPermissionType.DENY,
    )
    create(admin, literal, prefixed)
    assert set(admin.describe_acls(every_acl_of(user)).result(DEADLINE_S)) == {literal, prefixed}
    (gone,) = admin.delete_acls([every_acl_of(user)]).values()
    assert set(gone.result(DEADLINE_S)) == {literal, prefixed}
    assert admin.describe_acls(every_acl_of(user)).result(DEADLINE_S) == []


def test_a_user_without_rights_makes_no_acls(node: Node, user: str) -> None:
    client = AdminClient(settings_of(node, user))
    (made,) = client.create_acls([allow(user, "t", AclOperation.ALL)]).values()
    with pytest.raises(KafkaException) as caught:
        made.result(DEADLINE_S)
    assert caught.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_a_producer_stops_when_its_right_is_taken_away(node: Node, admin: AdminClient, user: str) -> None:
    topic = f"of-{user}"
    for done in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        done.result(DEADLINE_S)
    create(admin, allow(user, topic, AclOperation.WRITE))
    producer = Producer({**settings_of(node, user), "linger.ms": 0, "enable.idempotence": False})
    outcomes: list[int] = []

    def told(error: KafkaError | None, _message: Message) -> None:
        outcomes.append(error.code() if error else 0)

    def send() -> int:
        try:
            producer.produce(topic, b"value", on_delivery=told)
        except KafkaException as refused:  # once librdkafka has asked what there is
            outcomes.append(refused.args[0].code())
        producer.poll(POLL_S)
        return len(outcomes)

    until(lambda: send() >= 5)
    assert not any(outcomes)
    (gone,) = admin.delete_acls([every_acl_of(user)]).values()
    gone.result(DEADLINE_S)
    until(lambda: send() and outcomes[-1] == KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert producer.flush(DEADLINE_S) == 0


def test_kafka_acls(node: Node, user: str) -> None:
    with Tools() as tools:

        def acls(*words: str) -> str:
            status, out, err = tools.run("acls", ["--bootstrap-server", node.address, *words], "", TOOL_S)
            assert status == "0", out + err
            return out

        who = ("--allow-principal", f"User:{user}")
        acls("--add", *who, "--producer", "--topic", "orders-", "--resource-pattern-type", "prefixed")
        denied = ("--deny-principal", f"User:{user}", "--deny-host", "10.0.0.1")
        acls("--add", *denied, "--operation", "Read", "--group", "*")
        listed = acls("--list", "--principal", f"User:{user}")
        assert "ResourcePattern(resourceType=TOPIC, name=orders-, patternType=PREFIXED)" in listed
        assert "ResourcePattern(resourceType=GROUP, name=*, patternType=LITERAL)" in listed
        assert f"(principal=User:{user}, host=10.0.0.1, operation=READ, permissionType=DENY)" in listed
        for operation in ("CREATE", "DESCRIBE", "WRITE"):
            assert f"(principal=User:{user}, host=*, operation={operation}, permissionType=ALLOW)" in listed
        assert "orders-" in acls("--list", "--topic", "orders-2024", "--resource-pattern-type", "match")
        acls("--remove", "--force", *who, "--producer", "--topic", "orders-", "--resource-pattern-type", "prefixed")
        assert "orders-" not in acls("--list", "--principal", f"User:{user}")


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_kafka_pythons_own_test_of_acls(tmp_path: pathlib.Path) -> None:
    with Node(tmp_path, *NODE_SETTINGS) as node:
        outcome = run_suite(node.address, "--timeout=60", "-k", "acl")
    assert not outcome.failures
    assert outcome.passed > 0
