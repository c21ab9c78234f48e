"""Access control lists as values: who may, or may not, do what with which resources (KIP-11, KIP-290).

Strategy: plain frozen values with Kafka's numbers, so that what comes by the wire is compared with nothing between. An
ACL names resources of one kind by a literal name, by the beginning of names, or by the wildcard, which is the literal
`*`. A filter has "any" wherever an ACL has a value.

Knows nothing of requests, of what is stored where, and of how decisions come about (`decisions.py`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class _Numbered(IntEnum):
    """By Kafka's numbers; one that it does not have is 0, which stands for the unknown."""

    __hash__ = int.__hash__  # decisions are looked up by it, and that of enumerations is slow

    @classmethod
    def _missing_(cls, value: object) -> _Numbered | None:
        return cls(0) if isinstance(value, int) else None


class Operation(_Numbered):
    """What can be done with a resource."""

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
    """What ACLs are about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Numbered):
    """How a name is meant. MATCH is for filters: every pattern that a resource of that name falls under."""

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
"""Who is allowed one of these is allowed the operation too; what is denied implies nothing."""

OPERATIONS_OF: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    kind: tuple(map(Operation, numbers))
    for kind, numbers in (
        (ResourceType.TOPIC, (3, 4, 5, 6, 7, 8, 10, 11)),
        (ResourceType.GROUP, (3, 6, 8, 10, 11)),
        (ResourceType.CLUSTER, (5, 7, 8, 9, 10, 11, 12)),
    )
}
"""What clients are told of, where they ask what they may do (KIP-430)."""


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
    """Which ACLs are meant: None and ANY let everything through."""

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
