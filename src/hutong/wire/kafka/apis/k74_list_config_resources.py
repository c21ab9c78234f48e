"""ListConfigResources (key 74), versions 0 to 1, flexible.

Version 0 lists the resources of client metrics (KIP-714), version 1 those of the types asked for (KIP-1142).
"""

from hutong.wire.kafka.schema import INT8, array, int8, int16, int32, message, string, struct


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    resource_types: list[int] = array(INT8, "1+")


@struct
class ConfigResource:
    resource_name: str = string()
    resource_type: int = int8("1+", default=16)


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
