"""May this client do that? What handlers ask before they answer.

Strategy: who, from where, is the connection's; what, with which resource, is the handler's; the answer is that of the
ACLs (`security/decisions.py`). Where nothing is authorized, `is_on` is False and everybody may do everything: handlers
come here all the same, and it costs them one flag. Refusals are counted, and logged in one line at a
time. Some questions are asked quietly, because who is refused has another way, or is only shown less.

`broker/apis.py` lists the rights that each API asks for.

Knows nothing of requests: which error a refusal becomes is the handler's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from hutong.broker.handling.log_limit import LogLimit
from hutong.broker.rights.recent_refusals import RecentRefusals, RefusedRight
from hutong.foundation.errors import Refused
from hutong.security.acls import CLUSTER_NAME, OPERATIONS_OF, Operation, ResourceType
from hutong.security.decisions import Decisions
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.handling.context import RequestContext
    from hutong.foundation.clock import Clock

OPERATIONS_NOT_ASKED: Final = -(2**31)
NO_OPERATIONS: Final = 0
_SHOWN_CHARACTERS_MAX: Final = 200  # of a name that a client has chosen
_log = logging.getLogger("hutong.authorizer")
_BITS: Final = {kind: sum(1 << each for each in operations) for kind, operations in OPERATIONS_OF.items()}
_REFUSALS: Final = {
    ResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    ResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    ResourceType.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    ResourceType.TRANSACTIONAL_ID: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
}


class RightsParts(Protocol):
    """The part of the broker that authorization uses. Handlers of all wings use it, too."""

    authorizer: Authorizer


class Authorizer:
    """The questions of requests to the ACLs.

    `denied_total` counts refusals by kind of resource, `refusals` keeps the latest.
    """

    def __init__(self, decisions: Decisions, clock: Clock, *, is_on: bool) -> None:
        self.is_on = is_on
        self.decisions = decisions
        self.denied_total = dict.fromkeys(ResourceType, 0)
        self.allowed_total = 0
        self._clock = clock
        self.refusals = RecentRefusals()
        self._log_limit = LogLimit()

    def allows(
        self,
        context: RequestContext[object],
        operation: Operation,
        kind: ResourceType,
        name: str,
        *,
        quietly: bool = False,
    ) -> bool:
        """True if the client may do that with the resource. Quietly: a refusal is neither logged nor counted."""
        if not self.is_on:
            return True
        principal, host = str(context.principal), context.session.address
        return self.allows_client(principal, host, operation, kind, name, quietly=quietly)

    def allows_client(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str, *, quietly: bool = False
    ) -> bool:
        """The same for a client that comes by another protocol. It is asked while `is_on` alone."""
        if self.decisions.allows(principal, host, operation, kind, name):
            self.allowed_total += 1
            return True
        # A check of one right among several alternatives is no refusal yet.
        if not quietly:
            self._refused(principal, host, operation, kind, name)
        return False

    def allows_some(self, context: RequestContext[object], operation: Operation, kind: ResourceType) -> bool:
        """True if the client may do that with any resource of the kind."""
        if not self.is_on:
            return True
        principal, host = str(context.principal), context.session.address
        if self.decisions.allows_some(principal, host, operation, kind):
            self.allowed_total += 1
            return True
        self._refused(principal, host, operation, kind, "any")
        return False

    def operations(self, context: RequestContext[object], kind: ResourceType, name: str) -> int:
        """All that the client may do with the resource, as bits by the numbers of operations (KIP-430)."""
        if not self.is_on:
            return _BITS[kind]
        principal, host, allows = str(context.principal), context.session.address, self.decisions.allows
        return sum(1 << each for each in OPERATIONS_OF[kind] if allows(principal, host, each, kind, name))

    def _refused(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> None:
        self.denied_total[kind] += 1
        self.refusals.add(RefusedRight(principal, host, operation, kind, name), self._clock.wall_ms())
        skipped = self._log_limit.admit(self._clock.monotonic_ms())
        if skipped is None:
            return
        _log.warning(
            "%.*r from %s may not %s %s %.*r (%d more refusals before)",
            _SHOWN_CHARACTERS_MAX,
            principal,
            host,
            operation.name,
            kind.name,
            _SHOWN_CHARACTERS_MAX,
            name,
            skipped,
        )


def may(
    context: RequestContext[RightsParts], operation: Operation, kind: ResourceType, name: str, *, quietly: bool = False
) -> bool:
    """True if the client may do that with the resource."""
    authorizer = context.broker.authorizer
    return not authorizer.is_on or authorizer.allows(context, operation, kind, name, quietly=quietly)


def may_in_cluster(context: RequestContext[RightsParts], operation: Operation, *, quietly: bool = False) -> bool:
    """True if the client may do that with the cluster."""
    return may(context, operation, ResourceType.CLUSTER, CLUSTER_NAME, quietly=quietly)


def check(context: RequestContext[RightsParts], operation: Operation, kind: ResourceType, name: str) -> None:
    """Check the client's right. Raises Refused with the code for that kind of resource."""
    if not may(context, operation, kind, name):
        raise refusal(kind)


def check_cluster(context: RequestContext[RightsParts], operation: Operation) -> None:
    """Check the client's right to the cluster as a whole. Raises Refused(CLUSTER_AUTHORIZATION_FAILED)."""
    check(context, operation, ResourceType.CLUSTER, CLUSTER_NAME)


def refusal(kind: ResourceType) -> Refused:
    """The refusal for a resource of this kind."""
    return Refused(*_REFUSALS[kind])


def permitted(
    context: RequestContext[RightsParts],
    operation: Operation,
    kind: ResourceType,
    names: Iterable[str],
    *,
    quietly: bool = False,
) -> set[str]:
    """The names of resources that the client has the right to."""
    return {name for name in set(names) if may(context, operation, kind, name, quietly=quietly)}


def operations(context: RequestContext[RightsParts], kind: ResourceType, name: str) -> int:
    """All that the client may do with the resource, as bits by the numbers of operations (KIP-430)."""
    return context.broker.authorizer.operations(context, kind, name)


def cluster_operations(context: RequestContext[RightsParts], *, is_asked: bool) -> int:
    """The operations on the cluster; none for a client that may not DESCRIBE it."""
    if not is_asked:
        return OPERATIONS_NOT_ASKED
    if not may_in_cluster(context, Operation.DESCRIBE):
        return NO_OPERATIONS
    return operations(context, ResourceType.CLUSTER, CLUSTER_NAME)
