"""ApiVersions (key 18, versions 0-4): which APIs and versions this node answers (KIP-35, KIP-511).

Its response header is always version 0, so that a client of any age can read it. A request of a version we do not
know is answered in version 0 with UNSUPPORTED_VERSION and our range, so that the client can ask again. The list comes
from the registry that dispatch uses: what is advertised is what is handled.
"""

from collections.abc import Iterable

from hutong.broker.context import RequestContext
from hutong.wire.kafka.apis.k18_api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.registry import APIS

API_KEY = 18
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")


def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.api_version >= 3 and not (
        _is_legal(request.client_software_name) and _is_legal(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(api_keys=advertised(context.broker.api_keys))


def unsupported_version() -> ApiVersionsResponse:
    """The answer, in version 0, to a version of ApiVersions that is not known here."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=advertised([API_KEY]))


def advertised(keys: Iterable[int]) -> list[ApiVersion]:
    """The version ranges of these APIs, by key."""
    ranges = ((key, APIS[key].advertised_versions) for key in sorted(keys))
    return [ApiVersion(key, versions[0], versions[-1]) for key, versions in ranges]


def _is_legal(text: str) -> bool:
    """KIP-511: letters, digits, '.' and '-', neither end being '.' or '-'."""
    return bool(text) and text[0] not in ".-" and text[-1] not in ".-" and _NAME_CHARACTERS.issuperset(text)
