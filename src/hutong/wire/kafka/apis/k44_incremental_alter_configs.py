"""IncrementalAlterConfigs (key 44), versions 0 and 1, flexible from 1.

Changes single configuration values and leaves the others alone (KIP-339).
"""

from hutong.wire.kafka.apis.shared import AlterConfigsResourceResponse
from hutong.wire.kafka.schema import array, boolean, int8, int32, message, string, struct


@struct
class AlterableConfig:
    name: str = string()
    config_operation: int = int8()  # 0: set; 1: delete; 2: append; 3: subtract
    value: str | None = string(nullable="0+")


@struct
class AlterConfigsResource:
    resource_type: int = int8()  # 2: topic; 4: broker; 8: broker logger; 16: client metrics; 32: group
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
