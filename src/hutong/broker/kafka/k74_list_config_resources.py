"""ListConfigResources (key 74, versions 0-1): what has settings, by type (KIP-714, KIP-1142).

Version 0 asks for subscriptions to clients' metrics, version 1 for the types it names, or for all. The
client needs DESCRIBE_CONFIGS of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable

from hutong.broker.configs.config_changes import BROKER, GROUP, LOGGER, METRICS, TOPIC
from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may_in_cluster
from hutong.security.acls import Operation
from hutong.wire.kafka.apis.k74_list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 74


def handle(request: ListConfigResourcesRequest, context: RequestContext[AdminParts]) -> ListConfigResourcesResponse:
    if not may_in_cluster(context, Operation.DESCRIBE_CONFIGS):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if context.api_version == 0:
        kinds: Iterable[int] = (METRICS,)
    else:
        kinds = dict.fromkeys(request.resource_types) or (GROUP, METRICS, LOGGER, BROKER, TOPIC)
    response = ListConfigResourcesResponse()
    for kind in kinds:
        names = _names(kind, context)
        if names is None:
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        response.config_resources += [ConfigResource(name, kind) for name in names]
    return response


def _names(kind: int, context: RequestContext[AdminParts]) -> Iterable[str] | None:
    broker = context.broker
    if kind == TOPIC:
        return [topic.name for topic in broker.topics.all()]
    if kind in (BROKER, LOGGER):
        return [str(node.node_id) for node in broker.cluster.nodes(context.listener)]
    if kind == METRICS:
        return broker.admin.metrics_configs.names()
    return sorted(broker.group_configs) if kind == GROUP else None
