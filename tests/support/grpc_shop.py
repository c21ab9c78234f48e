"""A service with every kind of type that a `.proto` has, for the tests of gRPC, and one that calls can be made to."""

import dataclasses
import enum
import uuid
from collections.abc import AsyncIterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Generic, Literal, NamedTuple, Protocol, Required, TypedDict, TypeVar

import msgspec

from hutong.rpc.descriptions.description import service

T = TypeVar("T")


class State(enum.Enum):
    """Where an order is."""

    OPEN = "open"
    SHUT = "shut"


class Level(enum.IntEnum):
    LOW = 5
    NONE = 0


class Item(msgspec.Struct):
    """Something that is sold."""

    name: str
    price: Decimal
    count: Annotated[int, msgspec.Meta(ge=1, description="How many.")] = 1
    parts: "list[Item]" = msgspec.field(default_factory=list)
    labels: dict[str, str | None] = {}  # msgspec copies it
    level: Level | None = None
    grid: list[list[float]] = []
    unset: int | msgspec.UnsetType = msgspec.UNSET


@dataclasses.dataclass
class Weight:
    kilograms: float


class Circle(msgspec.Struct, tag=True):
    radius: float


class Square(msgspec.Struct, tag=True, rename="camel"):
    side_length: float


class Point(NamedTuple):
    x: int
    y: int


class Note(TypedDict, total=False):
    text: Required[str]
    author: str


class Row(msgspec.Struct, array_like=True):
    number: int
    text: str | None


class Page(msgspec.Struct, Generic[T]):
    items: list[T]
    next: str | None = None


@service("every.kind")
class EveryKind(Protocol):
    """All that can cross.

    And its comments.
    """

    async def place(
        self,
        item: Item,
        at: datetime,
        state: State = State.OPEN,
        *,
        number: uuid.UUID | None = None,
        within: timedelta | None = None,
    ) -> uuid.UUID:
        """Take an order."""

    async def draw(
        self, shape: Circle | Square | None, mixed: int | str | list[int] | bool, day: date, data: bytes
    ) -> Circle | Square: ...

    async def nothing(self) -> None: ...

    async def shapes(
        self, points: dict[int, Point], pair: tuple[int, str | None], note: Note, weight: Weight, row: Row
    ) -> tuple[int, ...]: ...

    def watch(self, first: int = 0) -> AsyncIterator[Item]: ...

    async def page(self) -> Page[Item]: ...

    async def levels(self, of: dict[State, Level], like: Literal["a", "b"] = "a") -> list[Point | None]: ...

    async def set_options(
        self,
        tags: frozenset[str] = frozenset(),
        ratio: float = 0.5,
        is_on: bool = False,
        scores: tuple[int, ...] = (1, 2),
        limits: dict[str, int] | None = None,
    ) -> dict[str, list[int]] | None: ...
