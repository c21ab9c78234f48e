"""DeleteAcls (key 31, versions 1-3): without an authorizer there are none; each filter is refused (KIP-140)."""

from hutong.broker.context import RequestContext
from hutong.broker.kafka.k29_describe_acls import NO_AUTHORIZER
from hutong.wire.kafka.apis.k31_delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 31


def handle(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER) for _ in request.filters]
    )
