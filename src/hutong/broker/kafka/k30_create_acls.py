"""CreateAcls (key 30, versions 1-3): without an authorizer none can be created; each is refused (KIP-140)."""

from hutong.broker.context import RequestContext
from hutong.broker.kafka.k29_describe_acls import NO_AUTHORIZER
from hutong.wire.kafka.apis.k30_create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 30


def handle(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER) for _ in request.creations]
    )
