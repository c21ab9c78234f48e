"""DescribeAcls (key 29, versions 1-3): the ACLs that a filter lets through, by resource (KIP-140, KIP-290).

Where nothing is authorized there are none: SECURITY_DISABLED. A number that nobody knows lets nothing
through; a filter that says "unknown" closes the connection, as with Kafka.
"""

from __future__ import annotations

from typing import Final, Protocol

from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import check_cluster
from hutong.foundation.errors import ProtocolError, Refused
from hutong.security.acls import AclFilter, Operation, PatternType, Permission, ResourceType
from hutong.wire.kafka.apis.k29_describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 29
NO_AUTHORIZER: Final = "This node has no authorizer: everybody may do everything."


class WireFilter(Protocol):
    """As requests have it, to describe and to delete."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def handle(request: DescribeAclsRequest, context: RequestContext[AdminParts]) -> DescribeAclsResponse:
    try:
        check_acl_use(context, Operation.DESCRIBE)
    except Refused as refused:
        return DescribeAclsResponse(error_code=refused.code, error_message=refused.message)
    wanted = filter_of(request)
    resources: dict[tuple[ResourceType, str, PatternType], DescribeAclsResource] = {}
    for acl in context.broker.admin.acls.decisions.find(wanted):
        key = acl.resource_type, acl.name, acl.pattern
        resource = resources.setdefault(key, DescribeAclsResource(*key))
        resource.acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission))
    return DescribeAclsResponse(error_message="", resources=list(resources.values()))


def check_acl_use(context: RequestContext[AdminParts], operation: Operation) -> None:
    """Raises Refused where the client may not do that with ACLs, or there is no use for them."""
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


def says_unknown(wanted: AclFilter) -> bool:
    """Whether the filter has a number that nobody knows; it lets nothing through."""
    return 0 in (wanted.resource_type, wanted.pattern, wanted.operation, wanted.permission)
