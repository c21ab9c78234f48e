"""AlterConfigs (key 33, versions 0-2): replace all settings of topics, groups, the node (KIP-133).

What is not named falls back to its default; clients had better use IncrementalAlterConfigs. A resource that is named
twice is refused. The client needs ALTER_CONFIGS of the topic, the group, or for all else of the cluster.
"""

from __future__ import annotations

from hutong.broker.configs.config_changes import alter_whole
from hutong.broker.configs.config_requests import alter_each
from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.foundation.waiting.pending import Continuation, Pending
from hutong.wire.kafka.apis.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from hutong.wire.kafka.apis.shared import AlterConfigsResourceResponse

API_KEY = 33


def handle(
    request: AlterConfigsRequest, context: RequestContext[AdminParts]
) -> AlterConfigsResponse | Pending[AlterConfigsResponse]:
    def alter(asked: AlterConfigsResource, then: Continuation[None]) -> None:
        settings = [(config.name, config.value) for config in asked.configs]
        alter_whole(asked.resource_type, asked.resource_name, settings, request.validate_only, context.broker, then)

    return alter_each(request.resources, AlterConfigsResponse(), AlterConfigsResourceResponse, alter, context)
