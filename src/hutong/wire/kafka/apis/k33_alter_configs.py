"""AlterConfigs (key 33), versions 0 to 2, flexible from 2.

Replaces all configuration of a resource: what is not named falls back to its default. IncrementalAlterConfigs is the
API to use (KIP-339).
"""

from hutong.wire.kafka.apis.shared import AlterConfigsResourceResponse
from hutong.wire.kafka.schema import array, boolean, int8, int32, message, string, struct


@struct
class AlterableConfig:
    name: str = string()
    value: str | None = string(nullable="0+")


@struct
class AlterConfigsResource:
    resource_type: int = int8()  # 2: topic; 4: broker; 8: broker logger; 16: client metrics; 32: group
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
