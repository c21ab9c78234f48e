"""A secured broker with a door of each kind, the users that it knows and what they may do.

Strategy: whoever comes by the plain door of the loopback interface is `User:ANONYMOUS`, here a super user: by it users
and access control lists are made, in the same way for a Hutong node and for Apache Kafka (TEST_BROKER, see
tests/support/node.py), so that the one tells what is right for the other.

Alice (by password, and `CN=alice` by certificate) may do everything with topics and groups that begin with `work-`;
Bob may read the topic `open`, write the topic `bobs`, and nothing else.
"""

import pathlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

from bench.processes import ReadyProcess
from bench.raw_client import create_topic
from bench.targets import free_port
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.compat.secured.access import Access
from tests.compat.secured.certificates import Certificates, Identity, make_certificates
from tests.support.node import KAFKA_SCRIPT

PLAIN, SCRAM_256, SCRAM_512 = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"
MECHANISMS: Final = (PLAIN, SCRAM_256, SCRAM_512)
USERS: Final = {"alice": "alice's secret", "bob": "bob-secret"}
MINE: Final = "work-"  # what Alice may use begins so
OPEN: Final = "open"  # what Bob may read
BOBS: Final = "bobs"  # what Bob may write: so he may be an idempotent producer
SESSION_MS: Final = 2_500  # of the door `short`: franz-go comes again a second before, and Kafka wants a second between
DELAY_MS: Final = 300  # after a failed authentication
ITERATIONS: Final = 4096
DEADLINE_S: Final = 30.0
READY_S: Final = 240.0  # the first start on a machine fetches Kafka

# The doors: `plain` for the administrator; `tls` asks for a certificate, `strict` insists, `stale` shows an old one;
# `sasl` and `short` want a password behind TLS, the latter again and again; `bare` wants one without TLS.
DOORS: Final = ("plain", "tls", "strict", "stale", "sasl", "short", "bare")


@dataclass(frozen=True, slots=True)
class Secured:
    """Addresses by door, and the files of who is who."""

    addresses: Mapping[str, str]
    certificates: Certificates
    folder: pathlib.Path

    def tls(self, door: str = "tls", identity: Identity | None = None) -> Access:
        return Access(self.addresses[door], self.certificates.authority, identity)

    def sasl(self, mechanism: str, user: str = "alice", door: str = "sasl") -> Access:
        authority = None if door == "bare" else self.certificates.authority
        return Access(self.addresses[door], authority, None, mechanism, user, USERS[user])

    def wrong(self, mechanism: str, door: str = "sasl") -> Access:
        return replace(self.sasl(mechanism, door=door), password="not alice's")


@dataclass(slots=True)
class _Kafka:
    """Apache Kafka's words for the doors."""

    certificates: Certificates
    ports: dict[str, int] = field(default_factory=lambda: {door: free_port() for door in (*DOORS, "controller")})

    def settings(self) -> dict[str, str]:
        protocols = {"plain": "PLAINTEXT", "bare": "SASL_PLAINTEXT", "controller": "PLAINTEXT"}
        protocols |= dict.fromkeys(("sasl", "short"), "SASL_SSL") | dict.fromkeys(("tls", "strict", "stale"), "SSL")
        listeners = {door: f"{door.upper()}://127.0.0.1:{port}" for door, port in self.ports.items()}
        files = self.certificates
        told = {
            "listeners": ",".join(listeners.values()),
            "advertised.listeners": ",".join(listeners[door] for door in DOORS),
            "listener.security.protocol.map": ",".join(f"{door.upper()}:{kind}" for door, kind in protocols.items()),
            "inter.broker.listener.name": "PLAIN",
            "controller.quorum.voters": f"1@127.0.0.1:{self.ports['controller']}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(files.server.both),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(files.authority),
            "listener.name.tls.ssl.client.auth": "requested",
            "listener.name.strict.ssl.client.auth": "required",
            "listener.name.stale.ssl.keystore.type": "PEM",
            "listener.name.stale.ssl.keystore.location": str(files.stale_server.both),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
            "connection.failed.authentication.delay.ms": str(DELAY_MS),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        return told | {"controller.listener.names": "CONTROLLER"} | self._modules()

    def _modules(self) -> dict[str, str]:
        package = "org.apache.kafka.common.security"
        users = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
        told = {}
        for door in ("sasl", "short", "bare"):
            of_door = f"listener.name.{door}"
            told[f"{of_door}.plain.sasl.jaas.config"] = f"{package}.plain.PlainLoginModule required {users};"
            for mechanism in (SCRAM_256, SCRAM_512):
                key = f"{of_door}.{mechanism.lower()}.sasl.jaas.config"
                told[key] = f"{package}.scram.ScramLoginModule required;"
        return told

    def command(self, script: str, folder: pathlib.Path) -> list[str]:
        words = [script, "start", "--port", str(self.ports["plain"]), "--dir", str(folder / "data")]
        return words + [word for name, value in self.settings().items() for word in ("--set", f"{name}={value}")]


def started(folder: pathlib.Path, stack: ExitStack) -> Secured:
    """The broker with its users and their rights. It runs until `stack` closes."""
    certificates = make_certificates(folder)
    assert KAFKA_SCRIPT
    kafka = _Kafka(certificates)
    process = ReadyProcess(kafka.command(KAFKA_SCRIPT, folder), log_path=str(folder / "kafka.log"))
    stack.enter_context(process.start(READY_S))
    addresses = {door: f"localhost:{kafka.ports[door]}" for door in DOORS}
    furnish(addresses["plain"])
    return Secured(addresses, certificates, folder)


def furnish(bootstrap: str) -> None:
    """Users, their rights, and the topic that Bob may read."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    changes = [
        UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, ITERATIONS), password.encode())
        for user, password in USERS.items()
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    ]
    create_topic(bootstrap, OPEN, records=1)
    for change in changes:  # Kafka takes a user once in a request
        for user, done in admin.alter_user_scram_credentials([change]).items():
            assert done.result(DEADLINE_S) is None, user
    rights = [
        _right(kind, MINE, ResourcePatternType.PREFIXED, principal, AclOperation.ALL)
        for kind in (ResourceType.TOPIC, ResourceType.GROUP)
        for principal in ("User:alice", "User:CN=alice")
    ]
    rights += [
        _right(ResourceType.TOPIC, OPEN, ResourcePatternType.LITERAL, "User:bob", AclOperation.READ),
        _right(ResourceType.TOPIC, BOBS, ResourcePatternType.LITERAL, "User:bob", AclOperation.WRITE),
    ]
    for created in admin.create_acls(rights).values():
        created.result(DEADLINE_S)


def _right(
    kind: ResourceType, name: str, pattern: ResourcePatternType, principal: str, operation: AclOperation
) -> AclBinding:
    return AclBinding(kind, name, pattern, principal, "*", operation, AclPermissionType.ALLOW)
