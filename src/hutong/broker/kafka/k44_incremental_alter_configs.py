"""IncrementalAlterConfigs (key 44, versions 0-1): change single settings of topics, groups, the node (KIP-339).

Operations: 0 set, 1 delete (back to the default), 2 append to and 3 subtract from a list. Of the node's own settings
those can be changed that topics go by; of its loggers the levels (KIP-412). A resource that is named twice is refused.
The client needs ALTER_CONFIGS of the topic, the group, or for all else of the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from hutong.broker.config_changes import GROUP, alter_single, check_configs, check_once
from hutong.broker.context import Later, RequestContext
from hutong.broker.gather import Gather, put_error
from hutong.broker.group_config_changes import alter_group
from hutong.foundation.errors import HutongError, Refused
from hutong.security.acls import Operation
from hutong.wire.kafka.apis.k44_incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 44
NAMED_ONCE: Final = "A request names a resource once."


def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse | Later[IncrementalAlterConfigsResponse]:
    gather = Gather(IncrementalAlterConfigsResponse())
    named = Counter((asked.resource_type, asked.resource_name) for asked in request.resources)

    def settle(result: AlterConfigsResourceResponse, outcome: HutongError | None) -> None:
        if outcome is not None:
            put_error(result, outcome)
        gather.settled()

    for asked in request.resources:
        kind, name = asked.resource_type, asked.resource_name
        result = AlterConfigsResourceResponse(error_message=None, resource_type=kind, resource_name=name)
        gather.response.responses.append(result)
        gather.expect()
        try:
            if named[kind, name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, NAMED_ONCE)
            check_configs(context, Operation.ALTER_CONFIGS, kind, name)
            _alter(asked, request.validate_only, context, lambda outcome, result=result: settle(result, outcome))  # type: ignore[misc]
        except Refused as refused:
            settle(result, refused)
    return gather.returned()


def _alter(
    asked: AlterConfigsResource,
    validate_only: bool,
    context: RequestContext,
    then: Callable[[HutongError | None], None],
) -> None:
    if asked.resource_type == GROUP:
        check_once([change.name for change in asked.configs])
        alter_group(context.broker.group_configs, asked.resource_name, asked.configs, validate_only, then)
        return
    changes = [(change.name, change.config_operation, change.value) for change in asked.configs]
    alter_single(asked.resource_type, asked.resource_name, changes, validate_only, context.broker, then)
