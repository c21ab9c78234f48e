"""Rights of a registry's clients: the ACLs of Kafka's topics, which decide for their subjects.

    T-value, T-key, in any context    topic T
    any other subject                 a topic of that name, whether there is one or not
    all subjects, or a context        the cluster

Knows nothing of what is done.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from hutong.foundation.errors import Refused
from hutong.registry import names
from hutong.registry.values import RegistryCode
from hutong.security.acls import CLUSTER_NAME, Operation, ResourceType
from hutong.web.requests import WebRequest

_ENDS: Final = ("-key", "-value")


class ClientAuthorizer(Protocol):
    """The ACLs of the node. While it is not on, everybody may do everything."""

    is_on: bool

    def allows_client(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str, *, quietly: bool = False
    ) -> bool: ...


class SubjectRights:
    """The questions of the registry to the ACLs."""

    def __init__(self, authorizer: ClientAuthorizer) -> None:
        self._authorizer = authorizer

    def check(self, request: WebRequest, operation: Operation, scope: str | None) -> None:
        """Check a right to a subject or a context, to all for None. Raises Refused."""
        kind, name = resource_of(scope)
        if not self._allows(request, operation, kind, name):
            what = "the cluster" if kind is ResourceType.CLUSTER else f"topic {name[:200]}"
            raise Refused(RegistryCode.FORBIDDEN, f"{request.principal} needs {operation.name} on {what}.")

    def may_see(self, request: WebRequest, subject: str) -> bool:
        """True if the client is shown the subject in lists. A refusal is not logged."""
        return self._allows(request, Operation.DESCRIBE, *resource_of(subject), quietly=True)

    def may_see_one(self, request: WebRequest, subjects: Iterable[str]) -> bool:
        """True if the client is shown one of them at least."""
        return not self._authorizer.is_on or any(self.may_see(request, each) for each in subjects)

    def _allows(
        self, request: WebRequest, operation: Operation, kind: ResourceType, name: str, *, quietly: bool = False
    ) -> bool:
        authorizer = self._authorizer
        if not authorizer.is_on:
            return True
        principal, address = str(request.principal), request.address
        return authorizer.allows_client(principal, address, operation, kind, name, quietly=quietly)


def resource_of(scope: str | None) -> tuple[ResourceType, str]:
    """The resource of Kafka's that a subject, a context or all of them has the rights of."""
    name = "" if scope is None else names.split(scope)[1]
    if not name:
        return ResourceType.CLUSTER, CLUSTER_NAME
    for end in _ENDS:
        if name.endswith(end) and name != end:
            return ResourceType.TOPIC, name.removesuffix(end)
    return ResourceType.TOPIC, name
