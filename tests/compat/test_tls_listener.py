"""Real clients over TLS: a node's listeners, its certificates, and who is let in."""

import socket
import ssl
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.support.node import IS_HUTONG, Node
from tests.support.revocation import revocation_list

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(not IS_HUTONG, reason="starts a node with its own settings"),
]
DEADLINE_S = 20
SCRAM = "SCRAM-SHA-512"


class Certificates:
    """Of one authority, in files."""

    def __init__(self, folder: Path) -> None:
        self.authority = authority = trustme.CA()
        self.ca, self.server, self.client = folder / "ca.pem", folder / "server.pem", folder / "client.pem"
        authority.cert_pem.write_to_path(self.ca)
        server = authority.issue_cert("localhost", "127.0.0.1", common_name="the node")
        server.private_key_and_cert_chain_pem.write_to_path(self.server)
        client = authority.issue_cert("ann@example.org", common_name="ann", organization_name="Example")
        client.private_key_and_cert_chain_pem.write_to_path(self.client)

    @property
    def trusting(self) -> dict[str, str]:
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.ca)}

    @property
    def showing(self) -> dict[str, str]:
        mine = str(self.client)
        return {**self.trusting, "ssl.certificate.location": mine, "ssl.key.location": mine}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Node]:
    settings = (
        "kafka.listeners=PLAINTEXT://127.0.0.1:0 SSL://127.0.0.1:0 MUTUAL://127.0.0.1:0",
        "kafka.listener_protocols=MUTUAL:SSL",
        f"tls.certificate={certificates.server}",
        f"tls.client_ca={certificates.ca}",
        "tls.client_auth=requested",
    )
    with Node(tmp_path_factory.mktemp("node"), *settings, listens=False) as started:
        yield started


def listeners_of(node: Node) -> dict[str, str]:
    """HOST:PORT by the listener's name, from the ready line."""
    return dict(each.split("://") for each in node.process.fields["listeners"].split(","))


def round_trip(address: str, client: Mapping[str, str]) -> None:
    topic, group = f"tls-{uuid.uuid4().hex}", uuid.uuid4().hex
    producer = Producer({"bootstrap.servers": address, **client})
    producer.produce(topic, b"x" * 200_000)
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest", **client})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        assert message.error() is None
        assert message.value() == b"x" * 200_000
    finally:
        consumer.close()


def test_confluent_kafka_over_tls(node: Node, certificates: Certificates) -> None:
    round_trip(listeners_of(node)["SSL"], certificates.trusting)


def test_confluent_kafka_with_its_own_certificate(node: Node, certificates: Certificates) -> None:
    round_trip(listeners_of(node)["SSL"], certificates.showing)


def test_clients_are_told_the_address_of_their_listener(node: Node, certificates: Certificates) -> None:
    clients: dict[str, Mapping[str, str]] = {
        "PLAINTEXT": {},
        "SSL": certificates.trusting,
        "MUTUAL": certificates.showing,
    }
    for name, client in clients.items():
        address = listeners_of(node)[name]
        metadata = AdminClient({"bootstrap.servers": address, **client}).list_topics(timeout=DEADLINE_S)
        assert [f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()] == [address]


def test_certificates_are_changed_while_the_node_runs(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old, new = Certificates(tmp_path / "old"), Certificates(tmp_path / "new")
    settings = (
        "kafka.listeners=SSL://127.0.0.1:0",
        f"tls.certificate={old.server}",
        "tls.reload_interval_ms=86400000",
    )
    with Node(tmp_path, *settings, listens=False) as node:
        address = listeners_of(node)["SSL"]
        client = AdminClient({"bootstrap.servers": address, **old.trusting})
        assert client.list_topics(timeout=DEADLINE_S).brokers
        old.server.write_bytes(b"half a certif")
        with pytest.raises(KafkaException, match="Cannot use the TLS certificate"):
            load_again(client, str(old.server))
        old.server.write_bytes(new.server.read_bytes())
        with pytest.raises(KafkaException, match="Invalid value"):
            load_again(client, "/etc/passwd")
        load_again(client, str(old.server))
        round_trip(address, new.trusting)
        assert client.list_topics(timeout=DEADLINE_S).brokers  # by the connection that it has


def is_told(address: str, client: Mapping[str, str], words: str) -> bool:
    """True if confluent-kafka, which a listener does not let in, logs these words."""
    errors: list[KafkaError] = []
    settings: dict[str, Any] = {"bootstrap.servers": address, "error_cb": errors.append, **client}
    admin = AdminClient(settings)
    for _ in range(10 * DEADLINE_S):
        admin.poll(0.1)
        if any(words in error.str().lower() for error in errors):
            return True
    return False


def test_a_revoked_certificate_is_refused_from_the_next_connection_on(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    lists = tmp_path / "crl.pem"
    lists.write_bytes(revocation_list(certificates.authority))
    settings = (
        "kafka.listeners=SSL://127.0.0.1:0",
        f"tls.certificate={certificates.server}",
        f"tls.client_ca={certificates.ca}",
        "tls.client_auth=required",
        f"tls.crl={lists}",
        "tls.reload_interval_ms=86400000",
    )
    with Node(tmp_path, *settings, listens=False) as node:
        address = listeners_of(node)["SSL"]
        client = AdminClient({"bootstrap.servers": address, **certificates.showing})
        assert client.list_topics(timeout=DEADLINE_S).brokers
        lists.write_bytes(revocation_list(certificates.authority, [certificates.client]))
        load_again(client, str(certificates.server))
        assert is_told(address, certificates.showing, "alert certificate revoked")
        own = ("-cert", certificates.client, "-key", certificates.client)
        told = subprocess.run(  # with -ign_eof: in TLS 1.3 the alert comes after the client's part of the handshake
            ["openssl", "s_client", "-ign_eof", "-connect", address, *own],
            input=b"",
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert b"alert certificate revoked" in told.stderr
        assert client.list_topics(timeout=DEADLINE_S).brokers, "a connection that is open goes on, as in Kafka"
        assert "was revoked" in node.log_path.read_text()


def test_two_listeners_ask_for_different_things(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    settings = (
        "kafka.listeners=SSL://127.0.0.1:0 MUTUAL://127.0.0.1:0 SASL_SSL://127.0.0.1:0 INSIDE://127.0.0.1:0",
        "kafka.listener_protocols=MUTUAL:SSL INSIDE:SASL_SSL",
        f"tls.certificate={certificates.server}",
        f"tls.client_ca={certificates.ca}",
        "tls.listener_client_auth=MUTUAL:required INSIDE:required",
        "sasl.enabled_mechanisms=SCRAM-SHA-512",
        "sasl.listener_enabled_mechanisms=INSIDE:PLAIN",
    )
    user = {"sasl.username": "ann", "sasl.password": "wonderland"}
    plain, scram = ({**user, "security.protocol": "SASL_SSL", "sasl.mechanism": each} for each in ("PLAIN", SCRAM))
    with Node(tmp_path, *settings, listens=False) as node:
        addresses = listeners_of(node)
        round_trip(addresses["SSL"], certificates.trusting)
        assert is_told(addresses["MUTUAL"], certificates.trusting, "certificate required")
        round_trip(addresses["MUTUAL"], certificates.showing)
        admin = AdminClient({"bootstrap.servers": addresses["SSL"], **certificates.trusting})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
        upsertion = UserScramCredentialUpsertion("ann", info, b"wonderland")
        for done in admin.alter_user_scram_credentials([upsertion]).values():
            done.result(DEADLINE_S)
        round_trip(addresses["SASL_SSL"], {**certificates.trusting, **scram})
        round_trip(addresses["INSIDE"], {**certificates.showing, **plain})
        assert is_told(addresses["INSIDE"], {**certificates.trusting, **plain}, "certificate required")
        assert is_told(addresses["SASL_SSL"], {**certificates.trusting, **plain}, "mechanism")
        assert is_told(addresses["INSIDE"], {**certificates.showing, **scram}, "mechanism")
        shown = {entry.name: entry.value for entry in configs_of(admin)}
        assert shown["listener.name.mutual.ssl.client.auth"] == "required"
        assert shown["listener.name.inside.sasl.enabled.mechanisms"] == "PLAIN"


def configs_of(admin: AdminClient) -> list[ConfigEntry]:
    (done,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    return list(done.result(DEADLINE_S).values())


def load_again(client: AdminClient, file: str) -> None:
    entry = ConfigEntry("listener.name.ssl.ssl.keystore.location", file, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    (done,) = client.incremental_alter_configs([resource], request_timeout=DEADLINE_S).values()
    done.result(DEADLINE_S)


def test_a_client_that_does_not_know_the_authority_stays_out(node: Node, tmp_path: Path) -> None:
    stranger = Certificates(tmp_path)
    assert is_told(listeners_of(node)["SSL"], stranger.trusting, "certificate verify failed")


def test_plain_bytes_on_a_tls_listener_end_that_connection_alone(node: Node, certificates: Certificates) -> None:
    address = listeners_of(node)["SSL"]
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as plain:
        plain.sendall(b"\0\0\0\x0b\0\x12\0\0\0\0\0\x01\0\x01x")
        while plain.recv(1024):
            pass
    context = ssl.create_default_context(cafile=str(certificates.ca))
    raw = socket.create_connection((host, int(port)), timeout=DEADLINE_S)
    with context.wrap_socket(raw, server_hostname="localhost") as encrypted:
        assert encrypted.version() == "TLSv1.3"
