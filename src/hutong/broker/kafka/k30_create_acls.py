"""CreateAcls (key 30, versions 1-3): add ACLs, each by itself (KIP-140, KIP-290).

One that is there already is created once more without effect. INVALID_REQUEST for what no ACL can say, and for a
cluster by another name than `kafka-cluster`; SECURITY_DISABLED where nothing is authorized; POLICY_VIOLATION where
there are too many. What says "unknown" closes the connection, as with Kafka.
"""

from __future__ import annotations

from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import put_error
from hutong.broker.kafka.k29_describe_acls import check_acl_use
from hutong.broker.rights.acl_table import check_acl
from hutong.foundation.errors import HutongError, ProtocolError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from hutong.wire.kafka.apis.k30_create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 30


def handle(
    request: CreateAclsRequest, context: RequestContext[AdminParts]
) -> CreateAclsResponse | Pending[CreateAclsResponse]:
    results = [AclCreationResult(error_message="") for _ in request.creations]
    response = CreateAclsResponse(results=results)
    wanted: dict[Acl, list[AclCreationResult]] = {}
    try:
        check_acl_use(context, Operation.ALTER)
        acls = [_acl_of(asked) for asked in request.creations]
        for acl, result in zip(acls, results, strict=True):
            _take(acl, result, wanted)
        return _create(wanted, response, context)
    except Refused as refused:
        for result in results if not wanted else [each for shared in wanted.values() for each in shared]:
            put_error(result, refused)
        return response


def _take(acl: Acl, result: AclCreationResult, wanted: dict[Acl, list[AclCreationResult]]) -> None:
    try:
        if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
            raise Refused(ErrorCode.INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
        check_acl(acl)
    except Refused as refused:
        put_error(result, refused)
    else:
        wanted.setdefault(acl, []).append(result)


def _create(
    wanted: dict[Acl, list[AclCreationResult]], response: CreateAclsResponse, context: RequestContext[AdminParts]
) -> Pending[CreateAclsResponse]:
    pending: Pending[CreateAclsResponse] = Pending()

    def created(error: HutongError | None) -> None:
        for result in () if error is None else (each for shared in wanted.values() for each in shared):
            put_error(result, error)  # type: ignore[arg-type]
        pending.complete(response)

    context.broker.admin.acls.create(wanted, created)
    return pending


def _acl_of(asked: AclCreation) -> Acl:
    if 0 in (asked.resource_type, asked.resource_pattern_type, asked.operation, asked.permission_type):
        raise ProtocolError("an ACL says unknown")
    return Acl(
        ResourceType(asked.resource_type),
        asked.resource_name,
        PatternType(asked.resource_pattern_type),
        asked.principal,
        asked.host,
        Operation(asked.operation),
        Permission(asked.permission_type),
    )
