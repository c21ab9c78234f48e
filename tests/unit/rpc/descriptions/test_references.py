"""References in signatures: where a service may be passed, what mentions itself, and what is refused."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import pytest

from hutong.foundation.errors import UsageError
from hutong.rpc import describe, service
from hutong.rpc.descriptions.description import ResultKind, is_service
from hutong.rpc.serving.discovery import details_of


@service("tree")
class Tree(Protocol):
    """Mentions itself, and a service further down."""

    async def root(self) -> "Tree": ...
    async def parent(self) -> "Tree | None": ...
    async def children(self) -> "list[Tree]": ...
    async def grow(self, tree: "Tree", leaf: "Leaf | None" = None) -> None: ...


@service("leaf")
class Leaf(Protocol):
    async def tree(self) -> Tree: ...


class Undeclared(Protocol):
    async def call(self) -> None: ...


@dataclass
class Holder:
    leaf: Leaf


@service("places")
class Places(Protocol):
    async def itself(self, leaf: Leaf) -> None: ...
    async def optional(self, leaf: Leaf | None) -> None: ...
    async def items(self, leaves: list[Leaf]) -> None: ...
    async def sequence(self, leaves: Sequence[Leaf | None]) -> None: ...
    async def variadic(self, leaves: tuple[Leaf, ...] = ()) -> None: ...
    async def values(self, leaves: dict[int, Leaf]) -> None: ...
    async def mapping(self, leaves: Mapping[str, list[Leaf]] | None) -> None: ...
    async def annotated(self, leaf: Annotated[Leaf, "of a tree"]) -> None: ...


def test_a_service_may_mention_itself_and_one_that_is_declared_later() -> None:
    assert is_service(Tree)
    methods = describe(Tree).methods
    assert [methods[name].kind for name in ("root", "parent", "children", "grow")] == [
        ResultKind.REFERENCE,
        ResultKind.REFERENCES,
        ResultKind.REFERENCES,
        ResultKind.UNARY,
    ]
    assert [parameter.name for parameter in methods["grow"].references] == ["tree", "leaf"]
    assert methods["children"].wire_type == list[str]
    assert methods["root"].signature == "root() -> Tree"


def test_the_wire_has_text_in_the_place_of_services() -> None:
    wires = {name: method.parameters[0].wire_type for name, method in describe(Places).methods.items()}
    assert wires == {
        "itself": str,
        "optional": str | None,
        "items": list[str],
        "sequence": list[str | None],
        "variadic": tuple[str, ...],
        "values": dict[int, str],
        "mapping": dict[str, list[str]] | None,
        "annotated": str,
    }


def test_objects_and_addresses_are_exchanged_in_every_place() -> None:
    shape = describe(Places).methods["mapping"].parameters[0].shape
    assert shape is not None
    seen: list[type] = []

    def exchange(protocol: type, value: Any) -> Any:
        seen.append(protocol)
        return value + 1

    assert shape.exchanged({"a": [1, 2], "b": []}, exchange) == {"a": [2, 3], "b": []}
    assert shape.exchanged(None, exchange) is None
    assert seen == [Leaf, Leaf]


def test_discovery_shows_references_as_text() -> None:
    methods = {method.name: method for method in details_of("tree", describe(Tree)).methods}
    assert methods["children"].result_schema == {"type": "array", "items": {"type": "string"}}
    assert methods["grow"].arguments_schema["$defs"]["grow"]["properties"]["tree"] == {"type": "string"}
    assert methods["grow"].signature.startswith("grow(tree: Tree, leaf: ")


class Wrong:
    """Methods with services where none can be, each with what is said of it."""

    async def in_a_set(self, leaves: set[Leaf]) -> None: ...
    async def as_a_key(self, leaves: dict[Leaf, int]) -> None: ...
    async def or_text(self, leaf: Leaf | str) -> None: ...
    async def of_two(self, leaf: Leaf | Places) -> None: ...
    async def in_a_pair(self, leaf: tuple[Leaf, int]) -> None: ...
    async def in_a_dataclass(self, holder: Holder) -> None: ...
    async def dataclass_back(self) -> list[Holder]: ...  # type: ignore[empty-body]
    async def undeclared(self, other: Undeclared) -> None: ...
    async def undeclared_back(self) -> list[Undeclared]: ...  # type: ignore[empty-body]
    async def default(self, leaf: Leaf = "leaf") -> None: ...  # type: ignore[assignment]
    def stream(self) -> AsyncIterator[Leaf]: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("in_a_set", "by itself, with None, as item of a list or tuple, or as value of a dict, and not otherwise"),
        ("as_a_key", "not otherwise"),
        ("or_text", "not otherwise"),
        ("of_two", "not otherwise"),
        ("in_a_pair", "not otherwise"),
        ("in_a_dataclass", "the service Leaf is passed as an argument or a result, not inside of a value"),
        ("dataclass_back", "not inside of a value"),
        ("undeclared", "Undeclared is no service yet: decorate its Protocol with @service"),
        ("undeclared_back", "decorate its Protocol with @service"),
        ("default", "the default of 'leaf' is an object"),
        ("stream", "not otherwise"),
    ],
)
def test_services_elsewhere_are_refused(name: str, said: str) -> None:
    wrong = type("Wrong", (Protocol,), {name: vars(Wrong)[name], "__module__": __name__})
    with pytest.raises(UsageError, match=said) as caught:
        service("wrong")(wrong)
    assert str(caught.value).startswith(f"Wrong.{name}")


def test_a_name_that_never_comes_is_refused_at_the_first_use() -> None:
    @service("unknown")
    class Unknown(Protocol):
        async def call(self, item: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for _ in range(2):
        with pytest.raises(UsageError, match=r"Unknown.call has an annotation .* 'Nowhere' is not defined"):
            describe(Unknown)
