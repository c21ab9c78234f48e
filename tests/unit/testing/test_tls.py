"""TLS for embedded nodes: clients with certificates, helpers without, and durable addresses that go by TLS too."""

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Producer

from hutong import Node
from hutong.security.development import DevelopmentAuthority
from hutong.testing import EmbeddedNode


class Secured:
    """Settings of a node that asks for certificates, and properties of a client that has one."""

    def __init__(self, folder: Path) -> None:
        authority = DevelopmentAuthority(folder / "certs", days=1)
        server, ann, ca = authority.server(), authority.client("ann"), str(authority.files.certificate)
        self.client = {
            "security.protocol": "SSL",
            "ssl.ca.location": ca,
            "ssl.certificate.location": str(ann.certificate),
            "ssl.key.location": str(ann.key),
        }
        properties = folder / "client.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self.client.items()))
        self.settings = {
            "kafka.protocol": "SSL",
            "tls.certificate": str(server.certificate),
            "tls.key": str(server.key),
            "tls.client_ca": ca,
            "tls.client_auth": "required",
            "tls.principal_mapping_rules": "RULE:^CN=([a-z]+),.*$/$1/",
            "security.authorize": "true",
            "security.super_users": "User:ann",
            "bus.client_config": str(properties),
            "group.initial_rebalance_delay_ms": "0",
        }

    def send(self, bootstrap: str) -> list[object]:
        heard: list[object] = []
        producer = Producer({"bootstrap.servers": bootstrap, **self.client})
        producer.produce("orders", b"x", on_delivery=lambda error, _: heard.append(error))
        producer.flush(20)
        return heard


@pytest.fixture
def secured(tmp_path: Path) -> Secured:
    return Secured(tmp_path)


def test_the_owner_of_a_certificate_is_who_acls_are_about(secured: Secured) -> None:
    with EmbeddedNode(topics=["orders"], settings=secured.settings) as node:
        assert secured.send(node.bootstrap) == [None]
        assert [record.value for record in node.records("orders", 1)] == [b"x"]


async def test_durable_addresses_of_a_secured_node(secured: Secured) -> None:
    seen: asyncio.Queue[object] = asyncio.Queue()
    async with Node(kafka="127.0.0.1:0", settings=secured.settings) as node:
        assert await node.bus.publish("topic:orders", "one") is not None
        node.bus.consumer("topic:orders", lambda message: seen.put_nowait(message.body), group="billing")
        assert await asyncio.wait_for(seen.get(), 20) == "one"
