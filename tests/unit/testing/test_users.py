"""Users of embedded nodes: a client with the password gets in, helpers do without one."""

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Producer

from hutong import Node
from hutong.foundation.errors import UsageError
from hutong.testing import EmbeddedNode

SETTINGS = {"kafka.protocol": "SASL_PLAINTEXT", "sasl.allow_without_tls": "true"}
USERS = {"alice": "s3cret"}


def _sent(bootstrap: str, mechanism: str, password: str) -> list[object]:
    """The outcome of one record; none if it could not be sent."""
    heard: list[object] = []
    login = {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": password}
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "log_level": 0,
            "error_cb": lambda error: heard.append(error.name()),
            **login,
        }
    )
    producer.produce("orders", b"x", on_delivery=lambda error, _: heard.append(error))
    while not heard:
        producer.poll(0.1)
    producer.purge()
    return heard[:1]


@pytest.mark.parametrize(
    "settings", [SETTINGS, SETTINGS | {"security.authorize": "true", "security.super_users": "User:alice"}]
)
def test_a_node_for_tests_has_users(settings: dict[str, str]) -> None:
    with EmbeddedNode(topics=["orders"], settings=settings, users=USERS) as node:
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            assert _sent(node.bootstrap, mechanism, "s3cret") == [None]
        assert _sent(node.bootstrap, "SCRAM-SHA-512", "secret") == ["_AUTHENTICATION"]
        assert [record.value for record in node.records("orders", 3)] == [b"x"] * 3
        node.restart()
        assert _sent(node.bootstrap, "PLAIN", "s3cret") == [None]


async def test_a_node_inside_a_program_has_users() -> None:
    async with Node(kafka="127.0.0.1:0", settings=SETTINGS, users=USERS) as node:
        assert node.kafka is not None
        assert await asyncio.to_thread(_sent, node.kafka, "PLAIN", "s3cret") == [None]


async def test_the_bus_of_a_node_logs_in_at_its_own_broker(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.username=alice\nsasl.password=s3cret\n"
    )
    settings = SETTINGS | {"bus.client_config": str(file)}
    async with Node(kafka="127.0.0.1:0", settings=settings, users=USERS) as node:
        stored = await node.bus.publish("topic:orders", "x")
        assert stored is not None
        assert stored.offset == 0


@pytest.mark.parametrize("users", [{"alice": ""}, {"": "s3cret"}, {"a" * 2000: "s3cret"}])
def test_names_and_passwords_that_are_none(users: dict[str, str]) -> None:
    with pytest.raises(UsageError) as refused, EmbeddedNode(settings=SETTINGS, users=users):
        pass
    assert "s3cret" not in str(refused.value)
