"""DeleteAcls (key 31, versions 1-3): take away all ACLs that filters let through (KIP-140, KIP-290).

Each filter is answered with the ACLs that are gone by it, once that is durable. SECURITY_DISABLED where nothing is
authorized, INVALID_REQUEST for numbers that nobody knows. A filter of the type "unknown" closes the connection, as with
Kafka.
"""

from __future__ import annotations

from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import put_error
from hutong.broker.kafka.k29_describe_acls import check_acl_use, filter_of, has_unknown
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Acl, Operation
from hutong.wire.kafka.apis.k31_delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 31
FILTERS_MAX = 1_000
NAMELESS_MAX = 50  # each of these is held against every ACL


def handle(
    request: DeleteAclsRequest, context: RequestContext[AdminParts]
) -> DeleteAclsResponse | Pending[DeleteAclsResponse]:
    results = [DeleteAclsFilterResult(error_message=None) for _ in request.filters]
    response = DeleteAclsResponse(filter_results=results)
    acls = context.broker.admin.acls
    doomed: dict[Acl, None] = {}
    try:
        check_acl_use(context, Operation.ALTER)
        if len(results) > FILTERS_MAX:
            raise Refused(ErrorCode.POLICY_VIOLATION, f"A request has at most {FILTERS_MAX} filters.")
        if sum(asked.resource_name_filter is None for asked in request.filters) > NAMELESS_MAX:
            raise Refused(ErrorCode.POLICY_VIOLATION, f"A request has at most {NAMELESS_MAX} filters without a name.")
    except Refused as refused:
        for result in results:
            put_error(result, refused)
        return response
    filters = [filter_of(asked) for asked in request.filters]
    for wanted, result in zip(filters, results, strict=True):
        if has_unknown(wanted):
            put_error(result, Refused(ErrorCode.INVALID_REQUEST, "A filter has a number that nobody knows."))
            continue
        found = acls.decisions.find(wanted)
        doomed.update(dict.fromkeys(found))
        result.matching_acls = [_matching(acl) for acl in found]
    pending: Pending[DeleteAclsResponse] = Pending()

    def deleted(error: HutongError | None) -> None:
        for result in () if error is None else results:
            for gone in result.matching_acls:
                put_error(gone, error)  # type: ignore[arg-type]
        pending.complete(response)

    acls.delete(doomed, deleted)
    return pending


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
