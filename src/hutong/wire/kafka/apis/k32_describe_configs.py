"""DescribeConfigs (key 32), versions 1 to 4, flexible from 4.

Version 3 adds types and documentation (KIP-569). Null keys mean all keys.
"""

from hutong.wire.kafka.schema import STRING, array, boolean, int8, int16, int32, message, string, struct


@struct
class DescribeConfigsResource:
    resource_type: int = int8()  # 2: topic; 4: broker; 8: broker logger; 16: client metrics; 32: group
    resource_name: str = string()
    configuration_keys: list[str] | None = array(STRING, nullable="0+")


@message(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean("3+")


@struct
class DescribeConfigsSynonym:
    name: str = string()
    value: str | None = string(nullable="0+")
    source: int = int8()


@struct
class DescribeConfigsResourceResult:
    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)  # 1: topic; 2, 3: dynamic broker; 4: static broker; 5: default
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym)
    config_type: int = int8("3+")
    documentation: str | None = string("3+", nullable="0+")


@struct
class DescribeConfigsResult:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@message(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse:
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
