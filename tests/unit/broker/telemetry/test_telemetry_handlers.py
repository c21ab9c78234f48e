"""Requests for subscriptions and pushes on a node, and what its collector gets."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from tests.support.otlp import OtlpReceiver, attributes_of
from tests.unit.broker.wire_node import WireClient, client_of

from hutong import Node
from hutong.foundation.errors import UsageError
from hutong.server.configuration.loader import parse_address
from hutong.wire.kafka.apis.k18_api_versions import ApiVersionsRequest
from hutong.wire.kafka.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from hutong.wire.kafka.apis.k71_get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from hutong.wire.kafka.apis.k72_push_telemetry import PushTelemetryRequest
from hutong.wire.kafka.error_codes import ErrorCode

ZERO = bytes(16)


def metrics() -> bytes:
    data = MetricsData()
    data.resource_metrics.add().scope_metrics.add().metrics.add().name = "a.b"
    return bytes(data.SerializeToString())


@asynccontextmanager
async def client_on(folder: Path, **settings: str) -> AsyncIterator[WireClient]:
    async with Node(folder, kafka="127.0.0.1:0", settings=settings) as node:
        assert node.kafka is not None
        async with client_of(parse_address(node.kafka)) as client:
            yield client


@asynccontextmanager
async def subscribed(folder: Path, url: str, **settings: str) -> AsyncIterator[tuple[WireClient, Any]]:
    """A client of a node that asks for all metrics, and what it was told."""
    async with client_on(folder, **{"telemetry.endpoint": f"{url}/v1/metrics"}, **settings) as client:
        wanted = [AlterableConfig("metrics", 0, "*"), AlterableConfig("interval.ms", 0, "100")]
        asked = IncrementalAlterConfigsRequest([AlterConfigsResource(16, "all", wanted)], False)
        assert (await client.ask(asked, 1)).responses[0].error_code == 0
        await client.ask(ApiVersionsRequest("probe", "1.2"), 3)
        yield client, await client.ask(GetTelemetrySubscriptionsRequest(ZERO), 0)


async def push(client: WireClient, told: Any, data: bytes, compression: int = 0, *, is_last: bool = True) -> int:
    request = PushTelemetryRequest(told.client_instance_id, told.subscription_id, is_last, compression, data)
    code: int = (await client.ask(request, 0)).error_code
    return code


async def test_a_push_reaches_the_collector_with_labels(tmp_path: Path) -> None:
    with OtlpReceiver() as collector:
        async with subscribed(tmp_path, collector.url) as (client, told):
            assert (told.error_code, told.requested_metrics, told.push_interval_ms) == (0, ["*"], 100)
            assert (told.accepted_compression_types, told.telemetry_max_bytes) == ([4, 3, 1, 2], 1024 * 1024)
            assert told.client_instance_id != ZERO
            packed = zlib.compress(metrics(), wbits=31)
            assert await push(client, told, packed, 1, is_last=False) == ErrorCode.NONE
            labels = attributes_of(await asyncio.to_thread(collector.wait_for_resource, lambda _: True))
        assert (labels["client_id"], labels["client_software_name"]) == ("test", "probe")
        assert (labels["client_software_version"], labels["principal"]) == ("1.2", "User:ANONYMOUS")


@pytest.mark.parametrize(
    ("data", "compression", "code"),
    [
        (b"\xff", 0, ErrorCode.INVALID_RECORD),
        (b"{}", 0, ErrorCode.INVALID_RECORD),
        (b"no gzip", 1, ErrorCode.INVALID_RECORD),
        (b"\xff", 2, ErrorCode.INVALID_RECORD),
        (b"\0" * 100, 3, ErrorCode.INVALID_RECORD),
        (b"\0" * 100, 4, ErrorCode.INVALID_RECORD),
        (b"", 0, ErrorCode.NONE),
        (b"\0", 5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (b"\0" * 2000, 0, ErrorCode.TELEMETRY_TOO_LARGE),
        (zlib.compress(bytes(100_000), wbits=31), 1, ErrorCode.TELEMETRY_TOO_LARGE),
    ],
)
async def test_pushes_that_are_no_metrics(tmp_path: Path, data: bytes, compression: int, code: ErrorCode) -> None:
    with OtlpReceiver() as collector:
        async with subscribed(tmp_path, collector.url, **{"telemetry.max_bytes": "1024"}) as (client, told):
            assert await push(client, told, data, compression) == code


async def test_a_collector_that_is_down_holds_up_nobody(tmp_path: Path) -> None:
    async with subscribed(tmp_path, "http://127.0.0.1:1") as (client, told):
        assert await push(client, told, metrics()) == ErrorCode.NONE
        assert await push(client, told, metrics()) == ErrorCode.INVALID_REQUEST


async def test_a_node_without_a_collector_offers_nothing(tmp_path: Path) -> None:
    async with client_on(tmp_path) as client:
        versions = await client.ask(ApiVersionsRequest("probe", "1"), 3)
        assert not {71, 72} & {api.api_key for api in versions.api_keys}
        answer = await client.ask(GetTelemetrySubscriptionsRequest(ZERO), 0)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        answer = await client.ask(PushTelemetryRequest(ZERO, 0, False, 0, b"?"), 0)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    "settings", [{"telemetry.endpoint": "localhost:4318"}, {"telemetry.endpoint": "http://h/", "telemetry.ca": "/no"}]
)
async def test_settings_that_are_refused(tmp_path: Path, settings: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="telemetry"):
        async with client_on(tmp_path, **settings):
            pass
