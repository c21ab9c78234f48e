"""Clients that log in with access tokens of a provider (SASL/OAUTHBEARER): who is let in, for what and how long."""

import asyncio
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.abc import AbstractTokenProvider as AioTokens
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
)
from confluent_kafka.admin import ResourceType as Kind
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.errors import KafkaError as PythonError
from kafka.net.sasl.oauth import AbstractTokenProvider as PythonTokens
from tests.support.exposition import parse
from tests.support.identity_provider import AUDIENCE, ISSUER, SECRET, IdentityProvider, SigningKey
from tests.support.kafka_tools import Tools
from tests.support.node import IS_HUTONG, Node

pytestmark = [
    pytest.mark.compat,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not IS_HUTONG, reason="starts a node with its own settings"),
    # kafka-python and aiokafka leave sockets to the collector when their connection failed.
    pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning"),
]
DEADLINE_S: Final = 20
TOPIC: Final = "orders"
SHORT_S: Final = 3


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as started:
        yield started


@pytest.fixture(scope="module")
def node(provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    settings = (
        "kafka.listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.allow_without_tls=true",
        "sasl.enabled_mechanisms=OAUTHBEARER",
        "security.authorize=true",
        "security.super_users=User:admin",
        "metrics.listen=127.0.0.1:0",
        f"oauth.jwks={provider.jwks_url}",
        "oauth.jwks_unknown_key_interval_ms=100",
        f"oauth.issuer={ISSUER}",
        f"oauth.audience={AUDIENCE}",
        "oauth.scope=kafka",
        "oauth.clock_skew_ms=0",
    )
    with Node(tmp_path_factory.mktemp("node"), *settings, listens=False) as started:
        admin = AdminClient(by_secret(provider, started, "admin"))
        topic = AclBinding(
            Kind.TOPIC, TOPIC, ResourcePatternType.LITERAL, "User:alice", "*", AclOperation.ALL, AclPermissionType.ALLOW
        )
        for created in [*admin.create_acls([topic]).values(), *admin.create_topics([NewTopic(TOPIC, 1)]).values()]:
            created.result(DEADLINE_S)
        yield started


def by_secret(provider: IdentityProvider, node: Node, name: str) -> dict[str, Any]:
    """librdkafka asks the provider itself (KIP-768)."""
    return {
        "bootstrap.servers": node.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": name,
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
    }


def by_callback(node: Node, token: Callable[[], str], life_s: float = 300) -> dict[str, Any]:
    return {
        "bootstrap.servers": node.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _config: (token(), time.time() + life_s),
    }


def of_python(node: Node) -> dict[str, Any]:
    return {
        "bootstrap_servers": node.address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }


def test_librdkafka_by_a_secret_and_its_rights(provider: IdentityProvider, node: Node) -> None:
    told: list[Any] = []
    for name in ("alice", "bob"):
        producer = Producer(by_secret(provider, node, name) | {"message.timeout.ms": DEADLINE_S * 1000})
        producer.produce(TOPIC, b"value", on_delivery=lambda error, _: told.append(error and error.code()))
        producer.flush(DEADLINE_S)
    assert told == [None, KafkaError.TOPIC_AUTHORIZATION_FAILED]


def test_librdkafka_by_a_callback_reads_what_it_wrote(provider: IdentityProvider, node: Node) -> None:
    def token() -> str:
        return provider.token("admin", 1)

    producer = Producer(by_callback(node, token))
    producer.produce(TOPIC, b"mine")
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer(by_callback(node, token) | {"group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    message = consumer.poll(DEADLINE_S)
    consumer.close()
    assert message is not None
    assert message.error() is None


@pytest.mark.parametrize("wrong", [{"aud": "another"}, {"exp": 1}])
def test_librdkafka_is_told_that_a_token_is_refused(
    provider: IdentityProvider, node: Node, wrong: dict[str, Any]
) -> None:
    errors: list[str] = []
    settings = by_callback(node, lambda: provider.token("alice", **wrong))
    admin = AdminClient(settings | {"error_cb": lambda error: errors.append(str(error))})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    admin.poll(DEADLINE_S)
    assert any("access token is not accepted" in error for error in errors), errors


def test_a_busy_client_outlives_its_tokens(provider: IdentityProvider, node: Node) -> None:
    """KIP-368: librdkafka logs in again on the same connection, before each token ends."""
    before, errors = _renewals(node), list[Any]()

    def token() -> str:
        return provider.token("alice", exp=int(time.time()) + SHORT_S)

    producer = Producer(by_callback(node, token, SHORT_S))
    while _renewals(node) < before + 2:
        producer.produce(TOPIC, b"value", on_delivery=lambda error, _: errors.append(error))
        producer.flush(DEADLINE_S)
    assert errors
    assert not any(errors)


def _renewals(node: Node) -> float:
    with urllib.request.urlopen(f"http://{node.process.fields['metrics']}/metrics?detail=full") as page:
        return sum(parse(page.read().decode())["hutong_sasl_reauthentications_total"].samples.values())


def test_a_key_that_the_provider_turned(provider: IdentityProvider, node: Node) -> None:
    provider.keys.append(SigningKey("turned", "ES384"))
    admin = AdminClient(by_callback(node, lambda: provider.token("admin", 2)))
    assert admin.list_topics(timeout=DEADLINE_S).brokers


def test_kafka_python(provider: IdentityProvider, node: Node) -> None:
    class Tokens(PythonTokens):  # type: ignore[misc]
        def __init__(self, audience: str = AUDIENCE) -> None:
            super().__init__()
            self.audience = audience

        def token(self) -> str:
            return provider.token("admin", aud=self.audience)

    admin = KafkaAdminClient(**of_python(node), sasl_oauth_token_provider=Tokens())
    assert isinstance(admin.list_topics(), list)
    admin.close()
    with pytest.raises(PythonError):
        KafkaConsumer(**of_python(node), sasl_oauth_token_provider=Tokens("another"), bootstrap_timeout_ms=3_000)


async def test_aiokafka(provider: IdentityProvider, node: Node) -> None:
    class Tokens(AioTokens):  # type: ignore[misc]
        async def token(self) -> str:
            return await asyncio.to_thread(provider.token, "admin", 1)

    consumer = AIOKafkaConsumer(**of_python(node), sasl_oauth_token_provider=Tokens())
    await consumer.start()
    assert isinstance(await consumer.topics(), set)
    await consumer.stop()


def test_java_by_a_secret(provider: IdentityProvider, node: Node, tmp_path: Path) -> None:
    """KIP-768 in Java, by Kafka's own tools."""
    package = "org.apache.kafka.common.security.oauthbearer"
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{package}.OAuthBearerLoginModule required "
        f'clientId="admin" clientSecret="{SECRET}" scope="kafka";',
        "sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "default.api.timeout.ms": "15000",
        "request.timeout.ms": "15000",
    }
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.token_url}"
    with Tools(allowed) as tools:
        by = ["--bootstrap-server", node.address, "--command-config", str(file)]
        status, out, err = tools.run("topics", ["--create", "--topic", "of-java", *by], "", DEADLINE_S)
        assert status == "0", out + err
        given = "a\nb\n"
        status, out, err = tools.run("console-producer", ["--topic", "of-java", *by], given, DEADLINE_S)
        assert status == "0", out + err
        status, out, err = tools.run("get-offsets", ["--topic", "of-java", *by], "", DEADLINE_S)
        assert (status, out.strip()) == ("0", "of-java:0:2"), err
