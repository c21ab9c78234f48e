"""IncrementalAlterConfigs (key 44, versions 0-1): change single settings of topics, groups, the node (KIP-339).

Operations: 0 set, 1 delete (back to the default), 2 append to and 3 subtract from a list. Of the node's own settings
those can be changed that topics go by; of its loggers the levels (KIP-412). A resource that is named twice is refused.
The client needs ALTER_CONFIGS of the topic, the group, or for all else of the cluster.
"""

from __future__ import annotations

from hutong.broker.configs.config_changes import alter_single
from hutong.broker.configs.config_requests import alter_each
from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.foundation.waiting.pending import Continuation, Pending
from hutong.wire.kafka.apis.k44_incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from hutong.wire.kafka.apis.shared import AlterConfigsResourceResponse

API_KEY = 44


def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext[AdminParts]
) -> IncrementalAlterConfigsResponse | Pending[IncrementalAlterConfigsResponse]:
    def alter(asked: AlterConfigsResource, then: Continuation[None]) -> None:
        changes = [(change.name, change.config_operation, change.value) for change in asked.configs]
        alter_single(asked.resource_type, asked.resource_name, changes, request.validate_only, context.broker, then)

    return alter_each(
        request.resources, IncrementalAlterConfigsResponse(), AlterConfigsResourceResponse, alter, context
    )
