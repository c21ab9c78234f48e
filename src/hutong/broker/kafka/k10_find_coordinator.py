"""FindCoordinator (key 10, versions 0-6): where a group or a transaction is coordinated.

Key types: 0 group, 1 transaction; any other, share groups (KIP-932) included, is answered with INVALID_REQUEST. From
version 4 many keys are asked for at once (KIP-699). The client needs DESCRIBE of the group or the transactional id.
"""

from __future__ import annotations

from typing import Final

from hutong.broker.coordinators.parts import GroupParts
from hutong.broker.handling.cluster_view import CoordinationKind
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.leaders import address_of
from hutong.broker.rights.authorization import may, refusal
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k10_find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 10
_MANY_KEYS_FROM: Final = 4
_GROUP: Final = 0
_KINDS: Final = {0: CoordinationKind.GROUP, 1: CoordinationKind.TRANSACTION}
_NO_NODE: Final = -1
_NO_PORT: Final = -1


def handle(request: FindCoordinatorRequest, context: RequestContext[GroupParts]) -> FindCoordinatorResponse:
    if context.api_version >= _MANY_KEYS_FROM:
        return FindCoordinatorResponse(
            coordinators=[_find(key, request.key_type, context) for key in request.coordinator_keys]
        )
    found = _find(request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=_message(found, request.key_type),
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _message(found: Coordinator, key_type: int) -> str | None:
    """Kafka's message below version 4; librdkafka before 2.3 shows that alone. From version 4 on Kafka sends none."""
    kind = ResourceType.GROUP if key_type == _GROUP else ResourceType.TRANSACTIONAL_ID
    denied = refusal(kind)
    return denied.message if found.error_code == denied.code else found.error_message


def _find(key: str, key_type: int, context: RequestContext[GroupParts]) -> Coordinator:
    kind = ResourceType.GROUP if key_type == _GROUP else ResourceType.TRANSACTIONAL_ID
    if key_type in _KINDS and not may(context, Operation.DESCRIBE, kind, key):
        return Coordinator(key, _NO_NODE, "", _NO_PORT, refusal(kind).code, "")
    if key_type not in _KINDS:
        error = ErrorCode.INVALID_REQUEST
        return Coordinator(key, _NO_NODE, "", _NO_PORT, error, f"Coordinators of type {key_type} are not kept here.")
    cluster = context.broker.cluster
    found = address_of(cluster, context.listener, cluster.coordinator_of(_KINDS[key_type], key))
    # An election is under way: clients ask again after a pause.
    if found is None:
        return Coordinator(key, _NO_NODE, "", _NO_PORT, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    return Coordinator(key, found.node_id, found.host, found.port)
