"""Labels that are added to metrics of OpenTelemetry, and bytes that are no metrics."""

import contextlib

import pytest

pytest.importorskip("opentelemetry.proto")

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from hutong.foundation.errors import ProtocolError
from hutong.wire.otlp import RESOURCES_MAX, labelled

LABELS = {"client_id": "c", "principal": "User:Jörg" * 30}


def metrics(resources: int = 2) -> MetricsData:
    data = MetricsData()
    for number in range(resources):
        of_resource = data.resource_metrics.add()
        attribute = of_resource.resource.attributes.add()
        attribute.key, attribute.value.string_value = "client_rack", str(number)
        metric = of_resource.scope_metrics.add().metrics.add()
        metric.name = "org.apache.kafka.producer.connection.creation.total"
        metric.sum.data_points.add().as_double = 1.5
    return data


def test_labels_join_those_of_each_resource() -> None:
    sent = metrics()
    told = ExportMetricsServiceRequest.FromString(labelled(sent.SerializeToString(), LABELS))
    for number, of_resource in enumerate(told.resource_metrics):
        found = {entry.key: entry.value.string_value for entry in of_resource.resource.attributes}
        assert found == {"client_rack": str(number), **LABELS}
        assert of_resource.scope_metrics == sent.resource_metrics[number].scope_metrics
    assert len(told.resource_metrics) == 2


def test_a_resource_that_was_left_out_gets_the_labels() -> None:
    sent = MetricsData()
    sent.resource_metrics.add().schema_url = "x"
    (told,) = MetricsData.FromString(labelled(sent.SerializeToString(), LABELS)).resource_metrics
    assert len(told.resource.attributes) == 2
    assert labelled(b"", LABELS) == b""


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        b"\x0a",
        b"\x0a\x05",
        b"\x0a\x02\x0a",
        b"\x0a\x02\x0a\x05",
        b"\x0a\x02\x08\x01",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x12\x00",
        b"\x08\x01",
        b"\x0b\x0c",
        b"\x0a\x03\x12\x01\xff",
        b"\x0a\x00" * (RESOURCES_MAX + 1),
        b"{}",
        b"\x1f\x8b\x08",
    ],
)
def test_what_is_no_metrics(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        labelled(data, LABELS)


def test_every_cut_is_noticed_or_harmless() -> None:
    whole = metrics().SerializeToString()
    for end in range(len(whole)):
        try:
            told = labelled(whole[:end], LABELS)
        except ProtocolError:
            continue
        MetricsData.FromString(told)


@given(st.binary(max_size=200))
def test_anything_is_labelled_or_refused(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        labelled(data, LABELS)
