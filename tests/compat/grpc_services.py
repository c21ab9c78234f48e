"""The service that gRPC's clients call in these tests, run by `hutong rpc serve tests.compat.grpc_services:bind`."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Protocol
from uuid import UUID

import msgspec

from hutong.rpc import Rpc, ServiceError, authentication, current_call, service


class OutOfStock(ServiceError):
    """Nothing is left of an item."""

    code = 17


class NoSuchItem(ServiceError):
    code = 18
    grpc_status = "NOT_FOUND"


class State(Enum):
    OPEN = "open"
    SHIPPED = "shipped"


class Line(msgspec.Struct):
    """An item and how many of it."""

    item: str
    price: Decimal
    count: Annotated[int, msgspec.Meta(ge=1)] = 1


class ByCard(msgspec.Struct, tag=True):
    number: str


class ByInvoice(msgspec.Struct, tag=True):
    days: int


class Order(msgspec.Struct):
    number: UUID
    at: datetime
    state: State
    lines: list[Line]
    total: Decimal
    payment: ByCard | ByInvoice
    labels: dict[str, str] = {}
    note: str | None = None


@service("compat.shop", errors=[OutOfStock, NoSuchItem])
class Shop(Protocol):
    """Sells things."""

    async def place(
        self,
        lines: list[Line],
        payment: ByCard | ByInvoice,
        *,
        note: str | None = None,
        labels: dict[str, str] | None = None,
    ) -> Order:
        """Take an order."""

    def count(self, start: int, stop: int) -> AsyncIterator[int]:
        """Numbers, as fast as they are read; it fails behind 12."""

    def fill(self, size: int, items: int) -> AsyncIterator[bytes]:
        """Much data."""

    async def closed(self, method: str) -> int:
        """The number of ended streams of the method, once the next one has ended."""

    async def produced(self) -> int:
        """The number of items that `fill` has made so far."""

    async def sleep(self, seconds: float) -> None:
        """Answer late."""

    async def echo(self, text: str) -> str:
        """The same."""

    async def header(self, name: str) -> str | None:
        """A header of the call."""


@service("compat.vault")
class Vault(Protocol):
    """For those who have a token."""

    async def open(self) -> str: ...


class ShopService:
    def __init__(self) -> None:
        self._closed: dict[str, int] = {}
        self._is_closed = asyncio.Condition()
        self._produced = 0

    async def place(
        self,
        lines: list[Line],
        payment: ByCard | ByInvoice,
        *,
        note: str | None = None,
        labels: dict[str, str] | None = None,
    ) -> Order:
        if any(line.item == "tea" for line in lines):
            raise OutOfStock("no tea is left", debug_info={"item": "tea"})
        if any(line.item == "?" for line in lines):
            raise NoSuchItem("there is no such item")
        total = sum((line.price * line.count for line in lines), Decimal(0))
        at = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
        return Order(UUID(int=7), at, State.SHIPPED, lines, total, payment, labels or {}, note)

    async def count(self, start: int, stop: int) -> AsyncIterator[int]:
        try:
            for number in range(start, stop):
                yield number
            if stop == 13:
                raise OutOfStock("no more numbers")
        finally:
            await self._close("count")

    async def fill(self, size: int, items: int) -> AsyncIterator[bytes]:
        try:
            for _ in range(items):
                self._produced += 1
                yield bytes(size)
        finally:
            await self._close("fill")

    async def closed(self, method: str) -> int:
        async with self._is_closed:
            await self._is_closed.wait_for(lambda: self._closed.get(method))
            return self._closed.pop(method)

    async def produced(self) -> int:
        return self._produced

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def echo(self, text: str) -> str:
        return text

    async def header(self, name: str) -> str | None:
        return current_call().headers.get(name)

    async def _close(self, method: str) -> None:
        async with self._is_closed:
            self._closed[method] = self._closed.get(method, 0) + 1
            self._is_closed.notify_all()


class VaultService:
    async def open(self) -> str:
        return "treasure"


async def bind(rpc: Rpc) -> None:
    """Bind both."""
    await rpc.bind(Shop, ShopService())
    token = authentication(lambda token: token if token == "sesame" else None)
    await rpc.bind(Vault, VaultService(), interceptors=[token])
