"""DescribeAcls (key 29, versions 1-3): the ACLs that a filter lets through, by resource (KIP-140, KIP-290).

Where nothing is authorized there are none: SECURITY_DISABLED. A number that nobody knows lets nothing
through; a filter that says "unknown" closes the connection, as with Kafka.

More than WHOLE_ACLS_MAX are described in stretches, with loop iterations for others between, and encoded on a worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol, TypeAlias

from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import check_cluster
from hutong.foundation.errors import HutongError, ProtocolError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from hutong.wire.kafka.apis.k29_describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 29
WHOLE_ACLS_MAX: Final = 500
"""Described in one go (measured: 30 us each, most of it to encode them)."""
STEP_ACLS: Final = 100
NO_AUTHORIZER: Final = "This node has no authorizer: everybody may do everything."

Resources: TypeAlias = dict[tuple[ResourceType, str, PatternType], DescribeAclsResource]


class WireFilter(Protocol):
    """The filter as requests have it, to describe and to delete."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def handle(
    request: DescribeAclsRequest, context: RequestContext[AdminParts]
) -> DescribeAclsResponse | Pending[DescribeAclsResponse]:
    try:
        check_acl_use(context, Operation.DESCRIBE)
    except Refused as refused:
        return DescribeAclsResponse(error_code=refused.code, error_message=refused.message)
    wanted = filter_of(request)
    candidates = context.broker.admin.acls.decisions.candidates(wanted)
    resources: Resources = {}
    if len(candidates) <= WHOLE_ACLS_MAX:
        _describe(candidates, wanted, resources)
        return _answer(resources)
    return _describe_in_stretches(candidates, wanted, context)


def _describe_in_stretches(
    candidates: Sequence[Acl], wanted: AclFilter, context: RequestContext[AdminParts]
) -> Pending[DescribeAclsResponse]:
    """Describe many ACLs, as they are now, without holding the loop."""
    pending: Pending[DescribeAclsResponse] = Pending()
    pending.is_large = True
    resources: Resources = {}

    def steps() -> Iterator[None]:
        for at in range(0, len(candidates), STEP_ACLS):
            _describe(candidates[at : at + STEP_ACLS], wanted, resources)
            yield

    def described(error: HutongError | None) -> None:
        if error is None:
            pending.complete(_answer(resources))
        else:
            # A part of the ACLs would be taken for all of them. Clients ask again after this code.
            code, message = ErrorCode.REQUEST_TIMED_OUT, "The node has no time to describe so many ACLs; ask again."
            pending.complete(DescribeAclsResponse(error_code=code, error_message=message))

    context.broker.long_requests.in_stretches(context.session, steps(), described)
    return pending


def _describe(acls: Sequence[Acl], wanted: AclFilter, resources: Resources) -> None:
    for acl in acls:
        if wanted.matches(acl):
            key = acl.resource_type, acl.name, acl.pattern
            resource = resources.get(key)
            if resource is None:
                resource = resources[key] = DescribeAclsResource(*key)
            resource.acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission))


def _answer(resources: Resources) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_message="", resources=list(resources.values()))


def check_acl_use(context: RequestContext[AdminParts], operation: Operation) -> None:
    """Check that ACLs are in use, and the client's right to them. Raises Refused."""
    check_cluster(context, operation)
    if not context.broker.authorizer.is_on:
        raise Refused(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def filter_of(asked: WireFilter) -> AclFilter:
    """The filter of a request. Raises ProtocolError where it says that it knows not what."""
    if 0 in (asked.resource_type_filter, asked.pattern_type_filter, asked.operation, asked.permission_type):
        raise ProtocolError("a filter of ACLs says unknown")
    return AclFilter(
        ResourceType(asked.resource_type_filter),
        asked.resource_name_filter,
        PatternType(asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        Operation(asked.operation),
        Permission(asked.permission_type),
    )


def has_unknown(wanted: AclFilter) -> bool:
    """Return True if the filter has an unknown number; such a filter lets nothing through."""
    return 0 in (wanted.resource_type, wanted.pattern, wanted.operation, wanted.permission)
