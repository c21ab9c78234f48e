"""DescribeUserScramCredentials (key 50, version 0): who has which SCRAM credentials (KIP-554).

The answer has their iterations, never the credentials themselves. The client needs DESCRIBE of the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may_in_cluster
from hutong.security.acls import Operation
from hutong.wire.kafka.apis.k50_describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 50


def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext[AdminParts]
) -> DescribeUserScramCredentialsResponse:
    if not may_in_cluster(context, Operation.DESCRIBE):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeUserScramCredentialsResponse(
            error_code=denied,
            error_message=None,
            results=[DescribeUserScramCredentialsResult(user.name, denied, None) for user in request.users or ()],
        )
    kept = context.broker.admin.scram
    names = Counter(user.name for user in request.users or ()) or Counter(kept.users)
    return DescribeUserScramCredentialsResponse(
        results=[_describe(name, count, kept.iterations(name)) for name, count in names.items()]
    )


def _describe(name: str, count: int, found: Mapping[int, int] | None) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(name, ErrorCode.DUPLICATE_RESOURCE, "A request names a user once.")
    if found is None:
        return DescribeUserScramCredentialsResult(
            name, ErrorCode.RESOURCE_NOT_FOUND, "The user has no SCRAM credential."
        )
    infos = [CredentialInfo(mechanism, iterations) for mechanism, iterations in found.items()]
    return DescribeUserScramCredentialsResult(name, credential_infos=infos)
