"""A stock gRPC client in Python, with stubs that protoc generated from what `hutong rpc proto` prints."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("grpc_tools")

import grpc
from bench.processes import ReadyProcess
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.json_format import MessageToDict
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from tests.support.grpc_node import generate, imported, print_proto, serving

TIMEOUT_S = 30.0
MEBIBYTE = 1024 * 1024


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadyProcess]:
    with serving(tmp_path_factory.mktemp("services")) as process:
        yield process
        assert process.terminate() == 0


@pytest.fixture(scope="module")
def channel(services: ReadyProcess) -> Iterator[Any]:
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(services.fields["grpc"], options=options) as channel:
        yield channel


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The module of messages; the one of stubs is beside it."""
    folder = tmp_path_factory.mktemp("stubs")
    print_proto("Shop", folder / "compat_shop.proto")
    outputs = (f"--python_out={folder}", f"--grpc_python_out={folder}")
    generate(folder, folder / "compat_shop.proto", *outputs)
    module = imported(folder, "compat_shop_pb2")
    imported(folder, "compat_shop_pb2_grpc")
    return module


@pytest.fixture(scope="module")
def shop(channel: Any, messages: ModuleType) -> Any:
    return sys.modules["compat_shop_pb2_grpc"].ShopStub(channel)


def failed(call: Any) -> Any:
    """The error of a call that fails."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value


def test_structs_enums_times_and_unions_cross(shop: Any, messages: ModuleType) -> None:
    request = messages.PlaceRequest(
        lines=[messages.Line(item="nut", price="1.50", count=3), messages.Line(item="bolt", price="2")],
        payment=messages.ByCardOrByInvoice(by_invoice=messages.ByInvoice(days=14)),
        note="soon",
    )
    order = shop.Place(request, timeout=TIMEOUT_S).result
    assert order.number == "00000000-0000-0000-0000-000000000007"
    assert order.at.ToJsonString() == "2026-01-02T03:04:05.678Z"
    assert order.state == messages.STATE_SHIPPED
    assert [(line.item, line.price, line.count) for line in order.lines] == [("nut", "1.50", 3), ("bolt", "2", 1)]
    assert order.total == "6.50"
    assert order.payment.by_invoice.days == 14
    assert order.note == "soon"


def test_a_service_s_error_has_a_status_and_its_code(shop: Any, messages: ModuleType) -> None:
    payment = messages.ByCardOrByInvoice(by_card=messages.ByCard(number="1"))
    error = failed(
        lambda: shop.Place(messages.PlaceRequest(lines=[messages.Line(item="tea", price="1")], payment=payment))
    )
    assert (error.code(), error.details()) == (grpc.StatusCode.FAILED_PRECONDITION, "no tea is left")
    trailers = dict(error.trailing_metadata())
    assert (trailers["hutong-code"], trailers["hutong-error"]) == ("17", "OutOfStock")
    assert trailers["hutong-debug-info-bin"] == b'{"item":"tea"}'
    error = failed(
        lambda: shop.Place(messages.PlaceRequest(lines=[messages.Line(item="?", price="1")], payment=payment))
    )
    assert error.code() == grpc.StatusCode.NOT_FOUND


def test_wrong_arguments(shop: Any, messages: ModuleType) -> None:
    line = messages.Line(item="nut", price="a lot")
    error = failed(lambda: shop.Place(messages.PlaceRequest(lines=[line])))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "payment" in error.details() or "price" in error.details()


def test_a_stream_in_order(shop: Any, messages: ModuleType) -> None:
    numbers = [response.result for response in shop.Count(messages.CountRequest(start=3, stop=1_003))]
    assert numbers == list(range(3, 1_003))
    assert shop.Closed(messages.ClosedRequest(method="count")).result == 1


def test_a_stream_that_fails_behind_its_items(shop: Any, messages: ModuleType) -> None:
    numbers: list[int] = []
    stream = shop.Count(messages.CountRequest(start=0, stop=13))
    with pytest.raises(grpc.RpcError) as caught:
        numbers.extend(response.result for response in stream)
    assert numbers == list(range(13))
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert dict(caught.value.trailing_metadata())["hutong-code"] == "17"
    assert shop.Closed(messages.ClosedRequest(method="count")).result == 1


def test_a_stream_that_is_left_is_closed_and_was_not_made_ahead(shop: Any, messages: ModuleType) -> None:
    items, size = 100_000, 100_000
    stream = shop.Fill(messages.FillRequest(size=size, items=items))
    assert len(next(stream).result) == size
    stream.cancel()
    assert shop.Closed(messages.ClosedRequest(method="fill"), timeout=TIMEOUT_S).result == 1
    produced = shop.Produced(messages.ProducedRequest()).result
    assert produced * size < 64 * MEBIBYTE, "it is held up by whoever does not read"


def test_a_deadline(shop: Any, messages: ModuleType) -> None:
    error = failed(lambda: shop.Sleep(messages.SleepRequest(seconds=2), timeout=0.2))
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    stream = shop.Fill(messages.FillRequest(size=1_000_000, items=1_000_000), timeout=0.5)
    error = failed(lambda: [None for _ in stream])
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert shop.Closed(messages.ClosedRequest(method="fill"), timeout=TIMEOUT_S).result == 1


def test_an_unknown_method_and_an_unknown_service(channel: Any) -> None:
    for path in ("/compat.shop.Shop/Refund", "/compat.shop.Bank/Place"):
        assert failed(lambda: channel.unary_unary(path)(b"")).code() == grpc.StatusCode.UNIMPLEMENTED  # noqa: B023


def test_messages_that_are_too_large(shop: Any, messages: ModuleType, services: ReadyProcess) -> None:
    text = "x" * (16 * MEBIBYTE + 1)
    error = failed(lambda: shop.Echo(messages.EchoRequest(text=text)))
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    error = failed(lambda: list(shop.Fill(messages.FillRequest(size=16 * MEBIBYTE, items=1))))
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert shop.Closed(messages.ClosedRequest(method="fill"), timeout=TIMEOUT_S).result == 1
    assert shop.Echo(messages.EchoRequest(text="still there")).result == "still there"


def test_metadata_are_headers(shop: Any, messages: ModuleType, channel: Any) -> None:
    request = messages.HeaderRequest(name="request-id")
    assert shop.Header(request, metadata=[("request-id", "a/1")]).result == "a/1"
    assert not shop.Header(request).HasField("result")
    vault = channel.unary_unary("/compat.vault.Vault/Open")
    assert failed(lambda: vault(b"")).code() == grpc.StatusCode.UNAUTHENTICATED
    assert b"treasure" in vault(b"", metadata=[("authorization", "Bearer sesame")])


def test_reflection_lists_services_and_lets_them_be_called(channel: Any) -> None:
    database = ProtoReflectionDescriptorDatabase(channel)
    assert set(database.get_services()) >= {
        "compat.shop.Shop",
        "compat.vault.Vault",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    pool = descriptor_pool.DescriptorPool(database)
    service = pool.FindServiceByName("compat.shop.Shop")
    assert [method.name for method in service.methods][:3] == ["Place", "Count", "Fill"]
    assert service.methods_by_name["Count"].server_streaming
    method = service.methods_by_name["Echo"]
    request = message_factory.GetMessageClass(method.input_type)(text="by reflection")
    response = message_factory.GetMessageClass(method.output_type)
    call = channel.unary_unary("/compat.shop.Shop/Echo", response_deserializer=response.FromString)
    assert MessageToDict(call(request.SerializeToString())) == {"result": "by reflection"}
