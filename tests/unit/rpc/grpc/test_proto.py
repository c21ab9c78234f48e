"""The `.proto` of a service, judged by protoc: the text compiles to the descriptors that gRPC is given."""

import dataclasses
import enum
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol, TypedDict

import msgspec
import pytest
from tests.support.grpc_shop import EveryKind

from hutong.foundation.errors import UsageError
from hutong.rpc.descriptions.description import describe, service
from hutong.rpc.grpc.proto.mapping import map_service
from hutong.rpc.grpc.proto.text import render

pytest.importorskip("google.protobuf")
protoc = pytest.importorskip("grpc_tools.protoc")

from google.protobuf import descriptor_pb2  # noqa: E402

from hutong.rpc.grpc.proto.descriptors import file_of  # noqa: E402


def proto_of(protocol: type) -> str:
    return render(map_service(describe(protocol)).schema)


def test_the_text_compiles_to_the_same_descriptors(tmp_path: Path) -> None:
    schema = map_service(describe(EveryKind)).schema
    file = file_of(schema)
    source = tmp_path / file.name
    source.parent.mkdir(parents=True)
    source.write_text(render(schema))
    out = tmp_path / "set"
    include = files("grpc_tools") / "_proto"
    assert not protoc.main(["protoc", f"-I{tmp_path}", f"-I{include}", f"--descriptor_set_out={out}", str(source)])
    [compiled] = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    assert compiled == file


def test_the_text_reads_as_written_by_hand() -> None:
    class Quote(msgspec.Struct):
        """A price at a time."""

        symbol: str
        price: float
        volume: Annotated[int, msgspec.Meta(description="Shares.")] = 0

    @service("market.prices")
    class Prices(Protocol):
        """Prices of shares."""

        async def latest(self, symbol: str) -> Quote | None:
            """The last one, if there is any."""

    assert (
        proto_of(Prices)
        == """\
syntax = "proto3";

package market.prices;

// Prices of shares.
service Prices {
  // The last one, if there is any.
  rpc Latest(LatestRequest) returns (LatestResponse);
}

message LatestRequest {
  string symbol = 1;
}

message LatestResponse {
  Quote result = 1;
}

// A price at a time.
message Quote {
  string symbol = 1;
  double price = 2;
  // Shares.
  optional int64 volume = 3;
}
"""
    )


def test_numbers_go_on_from_one_that_is_said() -> None:
    @service("a")
    class Numbered(Protocol):
        async def call(
            self, first: int, third: Annotated[str | None, msgspec.Meta(extra={"field_number": 3})], fourth: int
        ) -> None: ...

    request = map_service(describe(Numbered)).schema.messages[0]
    assert [(field.name, field.number) for field in request.fields] == [("first", 1), ("third", 3), ("fourth", 4)]


def test_numbers_follow_the_order_of_declaration() -> None:
    class BaseStruct(msgspec.Struct):
        z: int

    class LaterStruct(BaseStruct):
        a: int

    @dataclasses.dataclass
    class Data:
        z: int
        a: int

    class BaseDict(TypedDict):
        z: int

    class LaterDict(BaseDict, total=False):
        y: int
        a: int

    class Tuple(NamedTuple):
        z: int
        a: int

    class Both(Protocol):
        async def call(self, s: LaterStruct, d: Data, t: LaterDict, n: Tuple, *, z: int, a: int) -> None: ...

    messages = map_service(describe(service("a")(Both))).schema.messages
    names = {message.name: [field.name for field in message.fields] for message in messages}
    assert names == {
        "CallRequest": ["s", "d", "t", "n", "z", "a"],
        "CallResponse": [],
        "LaterStruct": ["z", "a"],
        "Data": ["z", "a"],
        "LaterDict": ["z", "y", "a"],
        "Tuple": ["z", "a"],
    }


def test_whoever_has_request_types_of_their_own_keeps_their_names() -> None:
    class PlaceRequest(msgspec.Struct):
        item: str

    @service("a")
    class Own(Protocol):
        async def place(self, request: PlaceRequest) -> None: ...

    [method] = map_service(describe(Own)).schema.methods
    assert (method.request, method.response) == ("PlaceArguments", "PlaceResult")


def any_result() -> type:
    @service("a")
    class Refused(Protocol):
        async def call(self) -> Any: ...

    return Refused


def float_keys() -> type:
    @service("a")
    class Refused(Protocol):
        async def call(self, by: dict[float, int]) -> None: ...

    return Refused


def same_number_twice() -> type:
    @service("a")
    class Refused(Protocol):
        async def call(self, one: int, two: Annotated[int, msgspec.Meta(extra={"field_number": 1})]) -> None: ...

    return Refused


def reserved_number() -> type:
    @service("a")
    class Refused(Protocol):
        async def call(self, one: Annotated[int, msgspec.Meta(extra={"field_number": 19_500})]) -> None: ...

    return Refused


def number_that_is_none() -> type:
    @service("a")
    class Refused(Protocol):
        async def call(self, one: Annotated[int, msgspec.Meta(extra={"field_number": "one"})]) -> None: ...

    return Refused


def same_json_name() -> type:
    @service("a")
    class Refused(Protocol):
        async def call(self, is_on: int, isOn: int) -> None: ...

    return Refused


def same_method_name() -> type:
    @service("a")
    class Refused(Protocol):
        async def get_it(self) -> None: ...
        async def getIt(self) -> None: ...
        async def get__it(self) -> None: ...

    return Refused


def same_type_name() -> type:
    def another() -> type:
        class Thing(msgspec.Struct):
            b: int

        return Thing

    class Thing(msgspec.Struct):
        a: int

    other = another()

    @service("a")
    class Refused(Protocol):
        async def call(self, one: Thing, two: other) -> None: ...  # type: ignore[valid-type]

    return Refused


def flags() -> type:
    class Rights(enum.Flag):
        READ = 1
        WRITE = 2

    @service("a")
    class Refused(Protocol):
        async def call(self, rights: Rights) -> None: ...

    return Refused


def foreign_letters() -> type:
    @service("a")
    class Refused(Protocol):
        async def call(self, größe: int) -> None: ...

    return Refused


def reference() -> type:
    @service("b")
    class Other(Protocol):
        async def call(self) -> None: ...

    @service("a")
    class Refused(Protocol):
        async def open(self) -> Other: ...

    return Refused


def references() -> type:
    @service("a")
    class Refused(Protocol):
        async def children(self) -> "list[Refused]": ...

    return Refused


def callback() -> type:
    @service("a")
    class Refused(Protocol):
        async def subscribe(self, text: str, listener: "Refused | None" = None) -> None: ...

    return Refused


def no_package() -> type:
    @service("::")
    class Refused(Protocol):
        async def call(self) -> None: ...

    return Refused


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (any_result, "Refused.call: the result is Any"),
        (float_keys, "'by' is a map whose keys are Float"),
        (same_number_twice, "one and two, which are both 1"),
        (reserved_number, "field number 19500"),
        (number_that_is_none, "takes a whole number, not 'one'"),
        (same_json_name, "is_on and isOn, which are both isOn"),
        (same_method_name, "both GetIt"),
        (same_type_name, "would be called Thing"),
        (flags, "Rights, whose members are combined"),
        (foreign_letters, "'größe', but names in a .proto"),
        (reference, "Refused.open returns another service"),
        (references, "Refused.children returns another service"),
        (callback, "Refused.subscribe takes a service as 'listener', which gRPC has no word for"),
        (no_package, "'::' has no letters"),
    ],
)
def test_refused_in_a_sentence(make: Callable[[], type], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        proto_of(make())
    assert str(caught.value).endswith(".")
