"""One trace through a producer, the log, a consumer, the bus and a service, as a collector over OTLP/HTTP receives it;
and traces that begin or end with OpenTelemetry's own instrumentation of confluent-kafka.
"""

import asyncio
import itertools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from tests.support.bridge import RawClient
from tests.support.confluent import producer
from tests.support.node import Node
from tests.support.otlp import OtlpReceiver, attributes_of

import hutong
from hutong.bus import Message
from hutong.bus.durable.message import DurableMessage
from hutong.rpc import connect, service
from hutong.tracing import Tracing

_numbers = itertools.count()
SETTINGS = {"group.initial_rebalance_delay_ms": "0"}
DEADLINE_S = 30
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@service("stock")
class Stock(Protocol):
    async def take(self, item: str) -> int: ...


class Shelf:
    async def take(self, item: str) -> int:
        return len(item)


class Program:
    """OpenTelemetry's SDK as a program has it, with the exporter that collectors are reached by."""

    def __init__(self, url: str) -> None:
        self.spans_of = TracerProvider(shutdown_on_exit=False)
        self.spans_of.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{url}/v1/metrics"), 3_600_000)
        self.metrics_of = MeterProvider([reader], shutdown_on_exit=False)
        self.tracing = Tracing(self.spans_of, self.metrics_of)

    async def flush(self) -> None:
        await asyncio.to_thread(self.spans_of.force_flush)
        await asyncio.to_thread(self.metrics_of.force_flush)

    def close(self) -> None:
        self.spans_of.shutdown()
        self.metrics_of.shutdown()


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture
def program(receiver: OtlpReceiver) -> Iterator[Program]:
    program = Program(receiver.url)
    yield program
    program.close()


@pytest.fixture
def topic() -> str:
    return f"traced-{next(_numbers)}"


async def test_one_trace_spans_producer_log_consumer_bus_and_service(
    receiver: OtlpReceiver, program: Program, topic: str
) -> None:
    over: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    tracing = program.tracing
    async with hutong.Node(kafka="127.0.0.1:0", rpc="127.0.0.1:0", tracing=tracing, settings=SETTINGS) as node:
        await node.rpc.bind(Stock, Shelf())
        assert node.rpc_address is not None
        async with connect(node.rpc_address) as client:
            tracing.trace(client)
            stock = client.proxy(Stock)

            async def order(message: DurableMessage) -> None:
                reply = await node.bus.request("reserve", message.body)
                over.set_result(reply.body)

            async def reserve(message: Message) -> int:
                return await stock.take(message.body.decode())

            node.bus.consumer("reserve", reserve)
            node.bus.consumer(f"topic:{topic}", order, group="billing")
            assert node.kafka is not None
            await asyncio.to_thread(_produce, node.kafka, tracing, topic, b"pear")
            assert await asyncio.wait_for(over, DEADLINE_S) == 4
    await program.flush()
    spans = receiver.wait_for(6)
    assert len({span.trace_id for span in spans}) == 1
    assert path_of(spans) == [
        f"send {topic}",
        f"process {topic}",
        "request reserve",
        "process reserve",
        "stock/take",
        "stock/take",
    ]
    process = next(span for span in spans if span.name == f"process {topic}")
    assert attributes_of(process) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
        "messaging.consumer.group.name": "billing",
    }
    assert receiver.metric_names == {
        "messaging.client.operation.duration",
        "messaging.client.sent.messages",
        "messaging.client.consumed.messages",
        "messaging.process.duration",
        "rpc.client.call.duration",
        "rpc.server.call.duration",
    }


async def test_what_the_bus_publishes_is_processed_in_its_trace_and_knows_its_place(
    receiver: OtlpReceiver, program: Program, topic: str
) -> None:
    over = asyncio.Event()
    attempts: list[int] = []

    def handle(message: DurableMessage) -> None:
        attempts.append(message.attempt)
        if message.attempt == 1:
            raise ValueError("not yet")
        over.set()

    async with hutong.Node(kafka="127.0.0.1:0", tracing=program.tracing, settings=SETTINGS) as node:
        await node.bus.publish(f"topic:{topic}", {"item": "pear"})
        node.bus.consumer(f"topic:{topic}", handle, group="billing")
        await asyncio.wait_for(over.wait(), DEADLINE_S)
    await program.flush()
    spans = receiver.wait_for(3)
    send = next(span for span in spans if span.name == f"send {topic}")
    assert attributes_of(send)["messaging.kafka.offset"] == 0
    first, second = sorted(
        (span for span in spans if span.name == f"process {topic}"), key=lambda span: span.start_time_unix_nano
    )
    assert first.parent_span_id == second.parent_span_id == send.span_id
    assert attributes_of(first)["error.type"] == "ValueError"
    assert attributes_of(second)["hutong.attempt"] == 2


async def test_traces_begin_with_opentelemetrys_own_instrumentation(
    receiver: OtlpReceiver, program: Program, topic: str, w3c: None
) -> None:
    instrumentation = pytest.importorskip("opentelemetry.instrumentation.confluent_kafka")
    over = asyncio.Event()
    async with hutong.Node(kafka="127.0.0.1:0", tracing=program.tracing, settings=SETTINGS) as node:
        assert node.kafka is not None
        theirs = instrumentation.ConfluentKafkaInstrumentor.instrument_producer(
            producer(node.kafka), tracer_provider=program.spans_of
        )
        await asyncio.to_thread(lambda: (theirs.produce(topic, b"pear"), theirs.flush()))
        node.bus.consumer(f"topic:{topic}", lambda message: over.set(), group="billing")
        await asyncio.wait_for(over.wait(), DEADLINE_S)
    await program.flush()
    spans = receiver.wait_for(2)
    assert path_of(spans) == [f"{topic} send", f"process {topic}"]


async def test_traces_end_with_opentelemetrys_own_instrumentation(
    receiver: OtlpReceiver, program: Program, topic: str, w3c: None
) -> None:
    instrumentation = pytest.importorskip("opentelemetry.instrumentation.confluent_kafka")
    async with hutong.Node(kafka="127.0.0.1:0", tracing=program.tracing, settings=SETTINGS) as node:
        await node.bus.publish(f"topic:{topic}", "pear")
        assert node.kafka is not None
        await asyncio.to_thread(_consume, instrumentation, node.kafka, program, topic)
    await program.flush()
    spans = receiver.wait_for(3)
    send = next(span for span in spans if span.name == f"send {topic}")
    theirs = next(span for span in spans if span.name == f"{topic} process")
    assert [link.span_id for link in theirs.links] == [send.span_id]


def test_a_node_of_its_own_traces_what_passes_its_bridges(
    receiver: OtlpReceiver, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    settings = ["tcp_bridge.listen=127.0.0.1:0", "bridge.permit_in=.*", "bridge.permit_out=.*", "bus.tracing=true"]
    node = Node(tmp_path, *settings).start()
    with RawClient(int(node.process.fields["tcp-bridge"].rpartition(":")[2])) as client:
        client.send(type="register", address="news")
        headers = {"traceparent": PARENT}
        assert client.ask(type="publish", address="news", body=1, headers=headers)["body"] == 1
    node.stop()
    spans = receiver.wait_for(2)
    assert {span.name for span in spans} == {"publish news", "process news"}
    assert {span.trace_id.hex() for span in spans} == {PARENT[3:35]}


def test_a_node_of_its_own_traces_produce_and_fetch_requests(
    receiver: OtlpReceiver, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    with Node(tmp_path, "kafka.tracing=true") as node:
        client = producer(node.address)
        client.produce("orders", b"1")
        assert client.flush(DEADLINE_S) == 0
        node.stop()
    sent = [span for span in receiver.wait_for(1) if span.name == "produce orders"]
    assert [attributes_of(span)["messaging.kafka.offset"] for span in sent] == [0]


@pytest.fixture
def w3c() -> Iterator[None]:
    """The instrumentation asks OpenTelemetry's global propagator, which is that of the recommendation by default."""
    from opentelemetry import propagate
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    before = propagate.get_global_textmap()
    propagate.set_global_textmap(TraceContextTextMapPropagator())
    yield
    propagate.set_global_textmap(before)


def path_of(spans: list[Any]) -> list[str]:
    """The names from the root on, where each has one child."""
    children: dict[bytes, Any] = {span.parent_span_id: span for span in spans}
    assert len(children) == len(spans)
    names, at = [], b""
    while at in children:
        names.append(children[at].name)
        at = children[at].span_id
    return names


def _produce(bootstrap: str, tracing: Tracing, topic: str, value: bytes) -> None:
    client = producer(bootstrap)
    with tracing.sending(topic) as headers:
        client.produce(topic, value, headers=headers)
    client.flush()


def _consume(instrumentation: Any, bootstrap: str, program: Program, topic: str) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "theirs", "auto.offset.reset": "earliest"})
    theirs = instrumentation.ConfluentKafkaInstrumentor.instrument_consumer(consumer, tracer_provider=program.spans_of)
    consumer.assign([TopicPartition(topic, 0, 0)])
    _until(lambda: theirs.poll(0.5))
    theirs.close()


def _until(step: Callable[[], object]) -> None:
    from tests.support.waiting import until

    until(step)
