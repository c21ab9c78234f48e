"""ApiVersions (key 18, versions 0-4): which APIs and versions this node answers (KIP-35, KIP-511).

Its response header is always version 0, so that a client of any age can read it. A request of a version we do not
know is answered in version 0 with UNSUPPORTED_VERSION and our range, so that the client can ask again. The list comes
from the registry that dispatch uses: what is advertised is what is handled.

From 3 the features are listed (KIP-584). Clients of version 3 cannot read a supported range that begins at 0, so such a
feature is left out for them (KAFKA-17011); finalized features are listed all the same.
"""

from collections.abc import Iterable
from typing import Final

from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.wire.kafka.apis.k18_api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.registry import APIS

API_KEY = 18
_ZERO_LEVELS_FROM_VERSION: Final = 4
_OF_TELEMETRY: Final = frozenset((71, 72))
_KEPT_MAX: Final = 100  # characters of a name or a version, of each connection
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")


def handle(request: ApiVersionsRequest, context: RequestContext[AdminParts]) -> ApiVersionsResponse:
    if context.api_version >= 3 and not (
        _is_legal(request.client_software_name) and _is_legal(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if context.api_version >= 3:
        context.session.software = request.client_software_name[:_KEPT_MAX], request.client_software_version[:_KEPT_MAX]
    features = context.broker.admin.features
    return ApiVersionsResponse(
        api_keys=advertised(_offered(context.broker)),
        supported_features=[
            SupportedFeatureKey(feature.name, feature.level_min, feature.level_max)
            for feature in features.supported.values()
            if feature.level_min > 0 or context.api_version >= _ZERO_LEVELS_FROM_VERSION
        ],
        finalized_features_epoch=features.epoch,
        finalized_features=[FinalizedFeatureKey(name, level, level) for name, level in features.finalized().items()],
    )


def _offered(broker: AdminParts) -> Iterable[int]:
    # KIP-714: without a receiver of metrics no client is to ask; Kafka leaves these two out as well.
    if broker.telemetry is not None:
        return broker.api_keys
    return (key for key in broker.api_keys if key not in _OF_TELEMETRY)


def unsupported_version() -> ApiVersionsResponse:
    """The answer, in version 0, to a version of ApiVersions that is not known here."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=advertised([API_KEY]))


def advertised(keys: Iterable[int]) -> list[ApiVersion]:
    """The version ranges of these APIs, by key; an API that has none there is for our own commands alone."""
    ranges = ((key, APIS[key].advertised_versions) for key in sorted(keys))
    return [ApiVersion(key, versions[0], versions[-1]) for key, versions in ranges if versions]


def _is_legal(text: str) -> bool:
    """KIP-511: letters, digits, '.' and '-', neither end being '.' or '-'."""
    return bool(text) and text[0] not in ".-" and text[-1] not in ".-" and _NAME_CHARACTERS.issuperset(text)
