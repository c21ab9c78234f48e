"""The description of a Protocol's signatures, and the errors of a declaration."""

import enum
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol, TypedDict, overload
from uuid import UUID

import msgspec
import pytest

from hutong.foundation.errors import UsageError
from hutong.rpc import ServiceError, closes, describe, service
from hutong.rpc.descriptions.description import Parameter, ResultKind


class Colour(enum.Enum):
    RED = "red"


class Line(msgspec.Struct):
    item: str
    count: int
    then: "Line | None" = None


@dataclass
class Place:
    name: str


class Parts(TypedDict):
    size: int


class OutOfStock(ServiceError):
    code = 17


@service("cursor")
class Cursor(Protocol):
    async def fetch(self, count: int) -> list[int]: ...
    @closes
    async def finish(self) -> None: ...


@service("orders", errors=[OutOfStock], version="1.2")
class Orders(Protocol):
    """Takes orders.

    All of them.
    """

    async def place(self, item: str, count: int = 1, *, note: str | None = None) -> UUID:
        """Place an order."""
        ...

    async def open(self, query: str) -> Cursor: ...
    def watch(self) -> AsyncIterator[Line]: ...
    async def every(
        self, when: datetime, price: Decimal, data: bytes, colour: Colour, place: Place, parts: Parts, other: Any
    ) -> dict[str, list[Line]]: ...
    async def forget(self) -> None: ...


def test_a_service_is_described() -> None:
    found = describe(Orders)
    assert (found.address, found.name, found.version, found.protocol) == ("orders", "Orders", "1.2", Orders)
    assert found.documentation == "Takes orders.\n\nAll of them."
    assert list(found.methods) == ["place", "open", "watch", "every", "forget"]
    assert found.errors == {17: OutOfStock}


def test_a_method_is_described() -> None:
    place = describe(Orders).methods["place"]
    assert place.parameters == (
        Parameter("item", str),
        Parameter("count", int, 1),
        Parameter("note", str | None, None, is_keyword_only=True),
    )
    assert (place.kind, place.result_type, place.is_awaited, place.closes) == (ResultKind.UNARY, UUID, True, False)
    assert place.documentation == "Place an order."
    assert place.signature == "place(item: str, count: int = 1, *, note: str | None = None) -> UUID"


def test_what_methods_return() -> None:
    methods = describe(Orders).methods
    assert (methods["open"].kind, methods["open"].result_type) == (ResultKind.REFERENCE, Cursor)
    assert (methods["watch"].kind, methods["watch"].result_type) == (ResultKind.STREAM, Line)
    assert not methods["watch"].is_awaited
    assert methods["watch"].signature == "watch() -> AsyncIterator[Line]"
    assert methods["forget"].result_type is None
    assert [name for name, method in describe(Cursor).methods.items() if method.closes] == ["finish"]


def test_arguments_are_given_as_the_method_is_called() -> None:
    arguments = describe(Orders).methods["place"].arguments_type
    assert msgspec.to_builtins(arguments("apple")) == {"item": "apple", "count": 1, "note": None}
    assert msgspec.to_builtins(arguments("apple", 2, note="now")) == {"item": "apple", "count": 2, "note": "now"}
    with pytest.raises(TypeError, match="item"):
        arguments()
    with pytest.raises(TypeError):
        arguments("apple", 2, "now")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "item"),
        ({"item": 3}, r"Expected `str`, got `int` - at `\$.item`"),
        ({"item": "a", "much": 1}, "much"),
    ],
)
def test_arguments_are_decoded_by_their_types(body: dict[str, object], said: str) -> None:
    arguments = describe(Orders).methods["place"].arguments_type
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.convert(body, arguments)


def test_methods_are_inherited() -> None:
    class Base(Protocol):
        async def first(self) -> int: ...

    @service("longer")
    class Longer(Base, Protocol):
        async def second(self) -> int: ...

    assert list(describe(Longer).methods) == ["first", "second"]
    with pytest.raises(UsageError, match="Base is no service"):
        describe(Base)


class Mine:
    """msgspec knows nothing of it."""


class Wrong:
    """Methods that no service has, each with what is said of it."""

    async def no_annotation(self, item) -> None: ...  # type: ignore[no-untyped-def]
    async def no_result(self, item: str): ...  # type: ignore[no-untyped-def]
    async def arguments(self, *items: str) -> None: ...
    async def options(self, **items: str) -> None: ...
    async def positional(self, item: str, /) -> None: ...
    async def _hidden(self, _item: str) -> None: ...
    async def mine(self, item: Mine) -> None: ...
    async def mine_within(self, items: list[dict[str, Mine]]) -> None: ...
    async def mine_back(self) -> Mine: ...  # type: ignore[empty-body]
    async def mutable(self, items: list[str] = []) -> None: ...  # noqa: B006
    async def keys(self, items: dict[tuple[int, int], str]) -> None: ...
    async def two_structs(self, items: Line | Place) -> None: ...
    async def stream_of_what(self) -> AsyncIterator: ...  # type: ignore[type-arg, empty-body]
    def not_async(self) -> int: ...  # type: ignore[empty-body]
    @property
    def prop(self) -> int: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_annotation", "'item' without an annotation"),
        ("no_result", "does not say what it returns"),
        ("arguments", r"has \*items"),
        ("options", r"has \*\*items"),
        ("positional", "positional-only item"),
        ("mine", "'item' is a Mine, and msgspec does not convert Mine"),
        ("mine_within", "msgspec does not convert Mine"),
        ("mine_back", "returns a Mine, and msgspec does not convert Mine"),
        ("mutable", "default of 'items' is a list, which calls would share"),
        ("keys", "keys"),
        ("two_structs", "cannot be converted"),
        ("stream_of_what", "stream"),
        ("not_async", "not async"),
        ("prop", "property"),
    ],
)
def test_what_cannot_be_called_from_afar_is_refused(name: str, said: str) -> None:
    wrong = type("Wrong", (Protocol,), {name: vars(Wrong)[name], "__module__": __name__})
    with pytest.raises(UsageError, match=said) as caught:
        service("wrong")(wrong)
    assert str(caught.value).startswith(f"Wrong.{name}")


def test_overloads_are_refused() -> None:
    with pytest.raises(UsageError, match=r"Overloaded.get is overloaded"):

        @service("overloaded")
        class Overloaded(Protocol):
            @overload
            async def get(self, item: str) -> str: ...
            @overload
            async def get(self, item: int) -> int: ...
            async def get(self, item: str | int) -> str | int: ...


def test_what_is_no_service_is_refused() -> None:
    with pytest.raises(UsageError, match="inherits from typing"):
        service("plain")(Mine)
    with pytest.raises(UsageError, match="takes the address"):
        service(Orders)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="has no methods"):

        @service("empty")
        class Empty(Protocol): ...

    with pytest.raises(UsageError, match="is an attribute"):

        @service("attribute")
        class Attribute(Protocol):
            size: int

            async def get(self) -> int: ...


def test_errors_have_codes_of_their_own() -> None:
    class NoCode(ServiceError): ...

    class Same(ServiceError):
        code = 17

    class Reserved(ServiceError):
        code = -3

    for errors, said in (
        ([NoCode], "code of its own"),
        ([Reserved], "code of its own"),
        ([OutOfStock, Same], "same code 17"),
        ([ValueError], "no subclass"),
    ):
        with pytest.raises(UsageError, match=said):

            @service("failing", errors=errors)  # type: ignore[arg-type]
            class Failing(Protocol):
                async def get(self) -> int: ...
