"""Access control lists as values: a principal is allowed or denied an operation on resources (KIP-11, KIP-290).

Strategy: plain frozen values with Kafka's numbers, so that values from the wire are compared without conversion. An
ACL names resources of one type by a literal name, by a prefix, or by the wildcard, which is the literal `*`. A filter
may have ANY wherever an ACL has a value.

Knows nothing of requests, storage, or how decisions are made (`decisions.py`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class _Numbered(IntEnum):
    """An enumeration with Kafka's numbers. A number that Kafka does not define becomes 0 (UNKNOWN)."""

    # Decisions are looked up by these values, and Enum's own hash is a Python function.
    __hash__ = int.__hash__

    @classmethod
    def _missing_(cls, value: object) -> _Numbered | None:
        return cls(0) if isinstance(value, int) else None


class Operation(_Numbered):
    """Operations on a resource, as AclOperation numbers them."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(_Numbered):
    """Types of resources, as Kafka's ResourceType numbers them."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Numbered):
    """Kinds of name patterns. MATCH occurs in filters alone: every pattern that covers a resource of that name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(_Numbered):
    """A deny wins over every allow."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


WILDCARD: Final = "*"  # as a literal name: every resource of the kind; as a host: every host
EVERYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"  # the one resource of kind CLUSTER

IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset((Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.ALTER_CONFIGS,)),
}
"""Being allowed one of the set implies being allowed the key. Denials imply nothing (Kafka's StandardAuthorizer)."""

OPERATIONS_OF: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    kind: tuple(map(Operation, numbers))
    for kind, numbers in (
        (ResourceType.TOPIC, (3, 4, 5, 6, 7, 8, 10, 11)),
        (ResourceType.GROUP, (3, 6, 8, 10, 11)),
        (ResourceType.CLUSTER, (5, 7, 8, 9, 10, 11, 12)),
    )
}
"""Operations that a response lists as authorized, by resource type (KIP-430)."""


@dataclass(frozen=True, slots=True)
class Acl:
    """One rule. `principal` is written `User:alice`."""

    resource_type: ResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A selection of ACLs: None and ANY match everything."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and self._names(acl)
        )

    def _names(self, acl: Acl) -> bool:
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern is not PatternType.MATCH:
            return False
        return acl.name == WILDCARD if acl.pattern is PatternType.LITERAL else self.name.startswith(acl.name)


def canonical_host(host: str) -> str:
    """One spelling for each address: IPv6 has many, and an IPv4 client of an IPv6 socket has two."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or address)
