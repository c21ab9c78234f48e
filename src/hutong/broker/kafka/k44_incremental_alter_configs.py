"""IncrementalAlterConfigs (key 44, versions 0-1): change single settings of topics and groups (KIP-339).

Operations: 0 set, 1 delete (back to the default), 2 append to and 3 subtract from a list. The node's own settings are
read when it starts and cannot be altered here; to delete them is granted, as none was ever set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hutong.broker.context import Later, RequestContext
from hutong.broker.gather import Gather, put_error
from hutong.broker.group_config_changes import alter_group
from hutong.broker.kafka.k32_describe_configs import RESOURCE_BROKER, RESOURCE_GROUP, RESOURCE_TOPIC
from hutong.broker.topic_config import KEYS, ConfigType, check_overrides
from hutong.foundation.errors import HutongError, Refused
from hutong.wire.kafka.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 44
_SET: Final = 0
_DELETE: Final = 1
_APPEND: Final = 2
_SUBTRACT: Final = 3


def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse | Later[IncrementalAlterConfigsResponse]:
    gather = Gather(IncrementalAlterConfigsResponse())

    def settle(result: AlterConfigsResourceResponse, outcome: HutongError | None) -> None:
        if outcome is not None:
            put_error(result, outcome)
        gather.settled()

    for asked in request.resources:
        result = AlterConfigsResourceResponse(resource_type=asked.resource_type, resource_name=asked.resource_name)
        gather.response.responses.append(result)
        gather.expect()
        try:
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
    if asked.resource_type == RESOURCE_GROUP:
        alter_group(context.broker.group_configs, asked.resource_name, asked.configs, validate_only, then)
        return
    if asked.resource_type == RESOURCE_BROKER and all(change.config_operation == _DELETE for change in asked.configs):
        then(None)  # Kafka's tool for reassignments takes back limits in this way
        return
    if asked.resource_type != RESOURCE_TOPIC:
        raise Refused(ErrorCode.INVALID_REQUEST, "Only settings of topics and groups can be altered.")
    topics = context.broker.topics
    topic = topics.get(asked.resource_name)
    if topic is None or topic.is_internal:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This node hosts no such topic.")
    overrides: dict[str, str | None] = dict(topic.overrides)
    for change in asked.configs:
        _apply(change, overrides, topics.defaults.get(change.name))
    if validate_only:
        check_overrides(overrides)
        then(None)
    else:
        topics.alter(topic, overrides, then)


def _apply(change: AlterableConfig, overrides: dict[str, str | None], node_default: str | None) -> None:
    key = KEYS.get(change.name)
    if key is None:
        raise Refused(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {change.name[:100]}")
    if change.config_operation == _SET:
        if change.value is None:
            raise Refused(ErrorCode.INVALID_CONFIG, f"Null value not supported for {change.name}")
        overrides[change.name] = change.value
    elif change.config_operation == _DELETE:
        overrides.pop(change.name, None)
    elif change.config_operation in (_APPEND, _SUBTRACT):
        if key.type is not ConfigType.LIST:
            raise Refused(ErrorCode.INVALID_CONFIG, f"{change.name} is not a list")
        now = (overrides.get(change.name) or node_default or key.default).split(",")
        named = (change.value or "").split(",")
        kept = [item for item in now if item not in named]
        overrides[change.name] = ",".join([*kept, *named] if change.config_operation == _APPEND else kept)
    else:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown operation {change.config_operation}")
