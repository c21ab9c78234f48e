"""ApiVersions (key 18), versions 0 to 4, flexible from 3.

Version 3 adds the name and version of the client's software (KIP-511) and the features (KIP-584); version 4 fixes
features whose lowest version is 0 (KAFKA-17011). The response header is always version 0, and a version that we do not
speak is answered with a version 0 body, error UNSUPPORTED_VERSION and the range of this API.
"""

from hutong.wire.kafka.schema import array, boolean, int16, int32, int64, message, string, struct


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    client_software_name: str = string("3+")
    client_software_version: str = string("3+")


@struct
class ApiVersion:
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@struct
class SupportedFeatureKey:
    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


@struct
class FinalizedFeatureKey:
    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+")
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0)
    finalized_features_epoch: int = int64("3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2)
    zk_migration_ready: bool = boolean("3+", tag=3)
