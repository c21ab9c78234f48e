"""A small service with an error of its own."""

from typing import Protocol

from hutong.rpc import ServiceError, service


class SoldOut(ServiceError):
    """There is none left."""

    code = 17


@service("shop.stock", errors=[SoldOut])
class Stock(Protocol):
    """Counts the things on the shelves."""

    async def count(self, name: str, more: int = 0) -> int:
        """Count the things of this name."""
        ...


class Shelf:
    async def count(self, name: str, more: int = 0) -> int:
        if name == "tea":
            raise SoldOut("no tea")
        return len(name) + more
