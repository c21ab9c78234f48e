"""AlterConfigs (key 33, versions 0-2): replace all settings of topics, groups, the node (KIP-133).

What is not named falls back to its default; clients had better use IncrementalAlterConfigs. A resource that is named
twice is refused. The client needs ALTER_CONFIGS of the topic, the group, or for all else of the cluster.
"""

from __future__ import annotations

from collections import Counter

from hutong.broker.config_changes import alter_whole, check_configs
from hutong.broker.context import Later, RequestContext
from hutong.broker.gather import Gather, put_error
from hutong.broker.kafka.k44_incremental_alter_configs import NAMED_ONCE
from hutong.foundation.errors import HutongError, Refused
from hutong.security.acls import Operation
from hutong.wire.kafka.apis.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 33


def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse | Later[AlterConfigsResponse]:
    gather = Gather(AlterConfigsResponse())
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
            alter_whole(
                kind,
                name,
                [(config.name, config.value) for config in asked.configs],
                request.validate_only,
                context.broker,
                lambda outcome, result=result: settle(result, outcome),  # type: ignore[misc]
            )
        except Refused as refused:
            settle(result, refused)
    return gather.returned()
