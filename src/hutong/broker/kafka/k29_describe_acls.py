"""DescribeAcls (key 29, versions 1-3): without an authorizer there are no ACLs (KIP-140)."""

from typing import Final

from hutong.broker.context import RequestContext
from hutong.wire.kafka.apis.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 29
NO_AUTHORIZER: Final = "This node has no authorizer: everybody may do everything."


def handle(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
