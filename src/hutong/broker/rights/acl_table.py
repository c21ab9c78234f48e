"""The ACLs of this node, durable: each is an entry of the metadata whose name says all of it.

Strategy: what is on disk is what counts. An ACL that was created takes part in decisions from when its record is
durable, one that was deleted until then; a client that asks is answered after that.

Knows nothing of requests.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.state.durable_table import DurableTable
from hutong.foundation.errors import Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from hutong.security.decisions import Decisions
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.catalogue import WideStateLog

ACLS_MAX: Final = 50_000
CHARACTERS_MAX: Final = 1024  # of a name, a principal or a host
_IS_THERE: Final = True


class AclTable:
    """Every ACL, and the decisions that follow."""

    def __init__(self) -> None:
        self.decisions = Decisions()
        self._table = DurableTable("acl/", ACLS_MAX)
        self._table.on_change.append(self._apply)
        self.replay = self._table.replay

    def start(self, state: WideStateLog) -> None:
        """From here on changes are recorded in `state`. Called once, after replay."""
        self._table.start_wide(state)

    def create(self, acls: Collection[Acl], then: Continuation[None]) -> None:
        """Add these; `then` is called once they are durable. Raises Refused(POLICY_VIOLATION) where they are many."""
        self._table.put_all(dict.fromkeys(map(_entry_of, acls), _IS_THERE), then)

    def delete(self, acls: Collection[Acl], then: Continuation[None]) -> None:
        """Take these away; `then` is called once that is durable."""
        self._table.put_all(dict.fromkeys(map(_entry_of, acls)), then)

    def _apply(self, entry: str, value: Any) -> None:
        acl = _acl_of(entry)
        if value is None:
            self.decisions.remove(acl)
        else:
            self.decisions.add(acl)


def check_acl(acl: Acl) -> None:
    """Check that there can be such a rule. Raises Refused(INVALID_REQUEST)."""
    if acl.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        raise _invalid(f"Invalid resourceType {acl.resource_type.name}")
    if acl.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {acl.pattern.name}")
    if acl.operation in (Operation.UNKNOWN, Operation.ANY):
        raise _invalid(f"Invalid operation {acl.operation.name}")
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        raise _invalid(f"Invalid permissionType {acl.permission.name}")
    if not acl.name:
        raise _invalid("Resource name should not be empty")
    if ":" not in acl.principal:
        raise _invalid("A principal has a type and a name with a colon between, such as User:alice.")
    if max(len(acl.name), len(acl.principal), len(acl.host)) > CHARACTERS_MAX:
        raise _invalid(f"A name, a principal and a host have at most {CHARACTERS_MAX} characters each.")


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)


def _entry_of(acl: Acl) -> str:
    numbers = [int(acl.resource_type), int(acl.pattern), int(acl.operation), int(acl.permission)]
    return json.dumps([*numbers, acl.name, acl.principal, acl.host], separators=(",", ":"))


def _acl_of(entry: str) -> Acl:
    kind, pattern, operation, permission, name, principal, host = json.loads(entry)
    return Acl(
        ResourceType(kind),
        name,
        PatternType(pattern),
        principal,
        host,
        Operation(operation),
        Permission(permission),
    )
