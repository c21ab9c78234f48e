"""Shared parts of the tests of RPC: a service, and an implementation of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

import msgspec

from hutong.rpc import ServiceError, closes, current_call, service


class OutOfStock(ServiceError):
    code = 17


class Line(msgspec.Struct):
    item: str
    count: int = 1


@service("cursor")
class Cursor(Protocol):
    async def fetch(self, count: int) -> list[int]: ...
    @closes
    async def finish(self) -> int: ...


@service("shop", errors=[OutOfStock], version="1.2")
class Shop(Protocol):
    """Sells."""

    async def add(self, a: int, b: int = 1) -> int:
        """The sum."""
        ...

    async def buy(self, line: Line, *, at: datetime | None = None) -> Line: ...
    async def price(self, number: UUID, data: bytes) -> dict[str, Decimal]: ...
    async def refuse(self, code: int, message: str) -> None: ...
    async def fail(self, message: str) -> None: ...
    async def wait(self, name: str) -> str: ...
    async def wrong(self) -> int: ...
    async def unsendable(self) -> Any: ...
    async def header(self, name: str) -> list[str]: ...
    async def open(self, start: int) -> Cursor: ...
    def count(self, upto: int) -> AsyncIterator[int]: ...


async def until(is_so: Callable[[], object], *, pause: float = 0) -> None:
    """Let the loop turn until it is so; with a `pause` in seconds between where a timer is waited for."""
    for _ in range(10_000):
        if is_so():
            return
        await asyncio.sleep(pause)
    raise AssertionError("it never was")


class Numbers:
    """A cursor."""

    def __init__(self, start: int) -> None:
        self.at = start
        self.is_closed = False

    async def fetch(self, count: int) -> list[int]:
        self.at += count
        return list(range(self.at - count, self.at))

    async def finish(self) -> int:
        return self.at

    async def aclose(self) -> None:
        self.is_closed = True


class Store:
    """A shop. `gates` are what `wait` waits for; `counted` is how far the generators have been advanced."""

    def __init__(self) -> None:
        self.gates: dict[str, asyncio.Event] = {}
        self.begun: list[str] = []
        self.counted = 0
        self.ended: list[str] = []
        self.cursors: list[Numbers] = []

    async def add(self, a: int, b: int = 1) -> int:
        return a + b

    async def buy(self, line: Line, *, at: datetime | None = None) -> Line:
        if line.count > 10:
            raise OutOfStock(f"only 10 of {line.item}", debug_info={"left": 10})
        return Line(f"{line.item} at {at}", line.count)

    async def price(self, number: UUID, data: bytes) -> dict[str, Decimal]:
        return {f"{number} {data!r}": Decimal("1.50")}

    async def refuse(self, code: int, message: str) -> None:
        raise ServiceError(message, code=code, debug_info={"asked": code})

    async def fail(self, message: str) -> None:
        raise KeyError(message)

    async def wait(self, name: str) -> str:
        self.begun.append(name)
        await self.gates.setdefault(name, asyncio.Event()).wait()
        return current_call().headers.get("who") or name

    async def wrong(self) -> int:
        return "no number"  # type: ignore[return-value]

    async def unsendable(self) -> Any:
        return object()

    async def header(self, name: str) -> list[str]:
        return current_call().headers.get_all(name)

    async def open(self, start: int) -> Numbers:
        self.cursors.append(Numbers(start))
        return self.cursors[-1]

    async def count(self, upto: int) -> AsyncIterator[int]:
        try:
            for number in range(upto):
                self.counted = number
                yield number
        finally:
            self.ended.append("count")
