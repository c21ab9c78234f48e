"""The APIs we speak, in one table: dispatch, headers, codecs and the ApiVersions response all read this."""

from dataclasses import dataclass
from typing import Any

from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.apis import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k10_find_coordinator,
    k18_api_versions,
)
from hutong.wire.kafka.schema import message_info

API_VERSIONS_KEY = 18


class UnknownApi(ProtocolError):
    """A request whose API key we do not speak: the connection is closed."""

    def __init__(self, api_key: int) -> None:
        super().__init__(f"API key {api_key} is not spoken here")
        self.api_key = api_key


class UnsupportedVersion(ProtocolError):
    """A known API in a version we do not speak: the connection is closed, except for ApiVersions (KIP-511).

    There the client gets the version 0 body with error 35 and our range, and asks again.
    """

    def __init__(self, api_key: int, api_version: int) -> None:
        super().__init__(f"API key {api_key} is not spoken in version {api_version}")
        self.api_key = api_key
        self.api_version = api_version


@dataclass(frozen=True, slots=True)
class Api:
    """One API: `versions` are accepted, `advertised_versions` are told to clients.

    `flexible_from` is the first version with compact and tagged fields, None when there is none.
    """

    key: int
    name: str
    versions: range
    flexible_from: int | None
    advertised_versions: range
    request: type[Any]
    response: type[Any]

    def is_flexible(self, api_version: int) -> bool:
        return self.flexible_from is not None and api_version >= self.flexible_from


def _api(request: type[Any], response: type[Any], advertised_versions: range | None = None) -> Api:
    info = message_info(request)
    assert info.versions == message_info(response).versions
    assert info.flexible == message_info(response).flexible
    flexible_from = info.flexible.first if info.flexible else None
    name = info.name.removesuffix("Request")
    return Api(
        info.api_key, name, info.versions, flexible_from, advertised_versions or info.versions, request, response
    )


APIS: dict[int, Api] = {
    entry.key: entry
    for entry in (
        # Older librdkafka turns compression off unless version 0 is offered (KAFKA-18659); 0 to 2 are refused anyway.
        _api(k00_produce.ProduceRequest, k00_produce.ProduceResponse, range(14)),
        _api(k01_fetch.FetchRequest, k01_fetch.FetchResponse),
        _api(k02_list_offsets.ListOffsetsRequest, k02_list_offsets.ListOffsetsResponse),
        _api(k03_metadata.MetadataRequest, k03_metadata.MetadataResponse),
        _api(k10_find_coordinator.FindCoordinatorRequest, k10_find_coordinator.FindCoordinatorResponse),
        _api(k18_api_versions.ApiVersionsRequest, k18_api_versions.ApiVersionsResponse),
    )
}


def api(api_key: int) -> Api:
    """Raises UnknownApi."""
    found = APIS.get(api_key)
    if found is None:
        raise UnknownApi(api_key)
    return found
