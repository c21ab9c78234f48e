"""Shared parts of the tests of callbacks: services that take and return other services."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from hutong.rpc import closes, service


@service("listener")
class Listener(Protocol):
    async def hear(self, text: str) -> str: ...
    @closes
    async def bye(self) -> None: ...


@service("feed")
class Feed(Protocol):
    """Takes listeners in every place where one can be."""

    async def tell(self, listener: Listener, text: str) -> str: ...
    async def subscribe(self, listener: Listener) -> int: ...
    async def unsubscribe(self, listener: Listener) -> int: ...
    async def maybe(self, listener: Listener | None = None, *, other: Listener | None = None) -> str: ...
    async def everybody(self, listeners: list[Listener], text: str) -> list[str]: ...
    async def by_name(self, listeners: dict[str, Listener], text: str) -> dict[str, str]: ...
    async def back(self, listener: Listener) -> Listener: ...
    async def some(self, count: int) -> list[Listener] | None: ...
    async def first(self, count: int) -> Listener | None: ...
    def watched(self, listener: Listener, upto: int) -> AsyncIterator[str]: ...


@service("tree")
class Node(Protocol):
    """Mentions itself, and a service that is declared after it."""

    async def name(self) -> str: ...
    async def parent(self) -> "Node | None": ...
    async def children(self) -> "Sequence[Node]": ...
    async def adopt(self, child: "Node") -> "Node": ...
    async def visit(self, visitor: "Visitor") -> int: ...


@service("visitor")
class Visitor(Protocol):
    async def visit(self, node: Node) -> bool: ...


class Hearing:
    """A listener of the caller's. It waits for its gate, if it has one."""

    def __init__(self, name: str = "me", gate: asyncio.Event | None = None) -> None:
        self.name = name
        self.heard: list[str] = []
        self.gate = gate

    async def hear(self, text: str) -> str:
        self.heard.append(text)
        if self.gate is not None:
            await self.gate.wait()
        return f"{self.name} heard {text}"

    async def bye(self) -> None:
        self.heard.append("bye")


class Speaking:
    """A feed. `subscribed` is kept after the calls; `own` are the listeners that it returns."""

    def __init__(self) -> None:
        self.subscribed: list[Listener] = []
        self.own: list[Hearing] = []

    async def tell(self, listener: Listener, text: str) -> str:
        return await listener.hear(text)

    async def subscribe(self, listener: Listener) -> int:
        if listener not in self.subscribed:
            self.subscribed.append(listener)
        return len(self.subscribed)

    async def unsubscribe(self, listener: Listener) -> int:
        self.subscribed.remove(listener)
        return len(self.subscribed)

    async def maybe(self, listener: Listener | None = None, *, other: Listener | None = None) -> str:
        found = listener or other
        return "nobody" if found is None else await found.hear("maybe")

    async def everybody(self, listeners: list[Listener], text: str) -> list[str]:
        return [await listener.hear(text) for listener in listeners]

    async def by_name(self, listeners: dict[str, Listener], text: str) -> dict[str, str]:
        return {name: await listener.hear(text) for name, listener in listeners.items()}

    async def back(self, listener: Listener) -> Listener:
        return listener

    async def some(self, count: int) -> list[Hearing] | None:
        self.own = [Hearing(str(number)) for number in range(count)]
        return self.own if count else None

    async def first(self, count: int) -> Hearing | None:
        return Hearing("first") if count else None

    async def watched(self, listener: Listener, upto: int) -> AsyncIterator[str]:
        for number in range(upto):
            yield await listener.hear(str(number))


class Branch:
    """A node of a tree."""

    def __init__(self, name: str, *children: "Branch") -> None:
        self._name = name
        self._parent: Branch | None = None
        self._children = list(children)
        for child in children:
            child._parent = self

    async def name(self) -> str:
        return self._name

    async def parent(self) -> "Branch | None":
        return self._parent

    async def children(self) -> "list[Branch]":
        return self._children

    async def adopt(self, child: Node) -> Node:
        return child

    async def visit(self, visitor: Visitor) -> int:
        if not await visitor.visit(self):
            return 1
        return 1 + sum([await child.visit(visitor) for child in self._children])
