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
from dataclasses import dataclass, replace
from typing import Final

from bench.certificates import Certificates, Identity, make_certificates
from bench.raw_client import create_topic
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
from tests.compat.secured.brokers import of_hutong, of_kafka
from tests.compat.secured.rules import BOBS, MINE, OPEN, USERS, WITHOUT_TLS
from tests.support.node import KAFKA_SCRIPT

ITERATIONS: Final = 4096
DEADLINE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Secured:
    """Addresses by door, and the files of who is who."""

    addresses: Mapping[str, str]
    certificates: Certificates
    folder: pathlib.Path

    def tls(self, door: str = "tls", identity: Identity | None = None) -> Access:
        return Access(self.addresses[door], self.certificates.authority, identity)

    def sasl(self, mechanism: str, user: str = "alice", door: str = "sasl") -> Access:
        authority = None if door in WITHOUT_TLS else self.certificates.authority
        return Access(self.addresses[door], authority, None, mechanism, user, USERS[user])

    def plain_beside(self, door: str) -> str:
        """Where the administrator comes in to the broker that has the door."""
        return self.addresses["plain" if KAFKA_SCRIPT else f"plain-{door}"]

    def wrong(self, mechanism: str, door: str = "sasl") -> Access:
        return replace(self.sasl(mechanism, door=door), password="not alice's")


def started(folder: pathlib.Path, stack: ExitStack) -> Secured:
    """The broker with its users and their rights. It runs until `stack` closes."""
    certificates = make_certificates(folder)
    if not KAFKA_SCRIPT:
        return Secured(of_hutong.Doors(folder, certificates, stack, furnish), certificates, folder)
    addresses = of_kafka.open_doors(folder, certificates, stack)
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
