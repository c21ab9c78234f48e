"""Produce and Fetch requests of a node as spans."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, fetch_request
from tests.unit.tracing.scenes import Recording

import hutong
from hutong.foundation.errors import UsageError
from hutong.server.configuration.loader import parse_address
from hutong.tracing import Tracing
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.error_codes import ErrorCode


@asynccontextmanager
async def traced(tracing: Tracing, **settings: str) -> AsyncIterator[WireClient]:
    chosen = {"kafka.tracing": "true", **settings}
    async with hutong.Node(kafka="127.0.0.1:0", tracing=tracing, settings=chosen) as node:
        assert node.kafka is not None
        async with client_of(parse_address(node.kafka)) as client:
            await client.create("t")
            yield client


def batch() -> bytes:
    return batch_of(b"a", b"b", timestamp_ms=int(time.time() * 1000))


async def test_a_produce_and_a_fetch_are_spans(recording: Recording) -> None:
    async with traced(recording.tracing) as client:
        await client.produce(batch(), acks=-1)
        await client.produce(batch(), acks=-1)
        await client.fetch(0)
    first, second = (span for span in recording.spans if span.name == "produce t")
    fetched = recording.span("fetch t")
    assert {first.kind, fetched.kind} == {SpanKind.SERVER}
    attributes = dict(second.attributes or {})
    assert isinstance(attributes.pop("network.peer.port"), int)
    assert attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "produce",
        "messaging.operation.type": "send",
        "messaging.destination.name": "t",
        "messaging.destination.partition.id": "0",
        "messaging.client.id": "test",
        "messaging.kafka.offset": 2,
        "network.peer.address": "127.0.0.1",
    }
    assert fetched.attributes is not None
    assert fetched.attributes["messaging.operation.type"] == "receive"
    assert first.parent is second.parent is fetched.parent is None


async def test_a_fetch_that_waits_is_a_span_until_its_answer(recording: Recording) -> None:
    async with traced(recording.tracing) as client:
        client.send(fetch_request(0, max_wait_ms=30_000), 12)
        await client.writer.drain()
        assert all(span.name != "fetch t" for span in recording.spans)
        async with client_of(parse_address(_address_of(client))) as producer:
            await producer.produce(batch())
        await client.receive(1, 12)
    produced, fetched = recording.span("produce t"), recording.span("fetch t")
    assert fetched.start_time is not None
    assert produced.end_time is not None
    assert fetched.end_time is not None
    assert fetched.end_time > fetched.start_time


def _address_of(client: WireClient) -> str:
    host, port = client.writer.get_extra_info("peername")
    return f"{host}:{port}"


async def test_what_fails_says_why(recording: Recording) -> None:
    async with traced(recording.tracing) as client:
        assert (await client.produce(batch()[:-1] + b"x")).error_code == ErrorCode.CORRUPT_MESSAGE
        answer = await client.ask(fetch_request(99), 12)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    told: list[Any] = []
    for name in ("produce t", "fetch t"):
        span = recording.span(name)
        assert span.attributes is not None
        told.append((span.status.status_code, span.attributes["error.type"]))
    assert told == [(StatusCode.ERROR, "CORRUPT_MESSAGE"), (StatusCode.ERROR, "OFFSET_OUT_OF_RANGE")]


async def test_a_produce_without_acknowledgement_is_a_span_too(recording: Recording) -> None:
    async with traced(recording.tracing) as client:
        client.send(_unacknowledged(), 9)
        await client.fetch(0, max_wait_ms=30_000)
    assert recording.span("produce t").status.status_code is StatusCode.UNSET


def _unacknowledged() -> Any:
    return ProduceRequest(
        None, 0, 1000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, memoryview(batch()))])]
    )


async def test_what_the_sampler_leaves_out_is_answered_all_the_same() -> None:
    async with traced(Tracing(TracerProvider(ALWAYS_OFF, shutdown_on_exit=False))) as client:
        assert (await client.produce(batch(), acks=-1)).error_code == 0
        assert (await client.fetch(0)).error_code == 0


async def test_requests_are_no_spans_unless_the_settings_say_so(recording: Recording) -> None:
    async with traced(recording.tracing, **{"kafka.tracing": "false"}) as client:
        await client.produce(batch(), acks=-1)
    assert recording.spans == []


def test_without_opentelemetry_a_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("hutong.tracing")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)

    async def start() -> None:
        async with hutong.Node(kafka="127.0.0.1:0", settings={"kafka.tracing": "true"}):
            pass

    with pytest.raises(UsageError, match=r"pip install 'hutong\[tracing\]'"):
        asyncio.run(start())
