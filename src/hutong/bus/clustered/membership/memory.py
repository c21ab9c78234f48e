"""Membership in memory, for nodes of one process: tests, and the simulator, where time is virtual.

Strategy: one object holds what ZooKeeper would, and news takes a drawn time to each node, in order. A node that is
killed keeps its entries until its session ends, which `expire` does.

Knows nothing of connections between the nodes. Belongs to one loop.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, TypeAlias

from hutong.bus.clustered.membership.port import MembershipListener
from hutong.bus.shared.memory import MemoryEntries, MemoryTree
from hutong.wire.vertx.cluster_nodes import NodeInfo

DELAY_MS_MAX: Final = 2

Work: TypeAlias = Callable[[], None]
CallLater: TypeAlias = Callable[[int, Work], object]
"""Called with (delay in milliseconds, callback)."""


class MemoryRegistry:
    """The entries that the nodes of one process share."""

    def __init__(self, call_later: CallLater, random: Random, *, delay_ms_max: int = DELAY_MS_MAX) -> None:
        self._call_later = call_later
        self._random = random
        self._delay_ms_max = delay_ms_max
        self._members: dict[str, MemoryMembership] = {}
        self.nodes: dict[str, NodeInfo] = {}
        self.registrations: dict[str, set[tuple[str, int]]] = {}
        self.tree = MemoryTree()  # what the nodes share; it has the names of the nodes, too

    def connect(self, loop: asyncio.AbstractEventLoop | None = None) -> "MemoryMembership":
        """The membership of one node. News comes to its loop, or to the one that `call_later` belongs to."""
        return MemoryMembership(self, loop)

    def expire(self, node: str) -> None:
        """End the session of a node: its entries go. One that lives enters again, with all that it has announced."""
        member = self._members.get(node)
        self._remove(node)
        if member is not None:
            member.entries.expire()
            self._later(member.enter)

    def cut(self, node: str) -> None:
        """Let nothing through between a node and the registry until `heal`."""
        self._members[node].is_cut = True
        self._members[node].entries.cut()

    def heal(self, node: str) -> None:
        self._members[node].is_cut = False
        self._members[node].entries.heal()
        self._members[node].enter()

    # -- for members

    def add_node(self, member: "MemoryMembership", node: str, info: NodeInfo) -> None:
        self._members[node] = member
        self.nodes[node] = info
        self.tree.create(f"cluster/nodes/{node}", b"")
        self._tell_nodes()

    def leave(self, node: str) -> None:
        del self._members[node]
        self._remove(node)

    def vanish(self, node: str) -> None:
        """Forget who belongs to the node; its entries stay until `expire`."""
        del self._members[node]

    def register(self, address: str, node: str, number: int) -> None:
        self.registrations.setdefault(address, set()).add((node, number))
        self._tell_registrations(address)

    def unregister(self, address: str, node: str, number: int) -> None:
        present = self.registrations.get(address, set())
        present.discard((node, number))
        if not present:
            self.registrations.pop(address, None)
        self._tell_registrations(address)

    def counts(self, address: str) -> dict[str, int]:
        return dict(Counter([node for node, _ in sorted(self.registrations.get(address, ()))]))

    def later(self, work: Work) -> None:
        self._later(work)

    def _remove(self, node: str) -> None:
        self.nodes.pop(node, None)
        self.tree.remove(f"cluster/nodes/{node}")
        self._tell_nodes()
        for address in list(self.registrations):
            for other, number in sorted(self.registrations[address]):
                if other == node:
                    self.unregister(address, node, number)

    def _tell_nodes(self) -> None:
        for member in list(self._members.values()):
            member.hear(lambda listener: listener.nodes_changed(dict(self.nodes)))

    def _tell_registrations(self, address: str) -> None:
        for member in list(self._members.values()):
            member.hear(partial(member.tell_counts, address))

    def _later(self, work: Work) -> None:
        self._call_later(self._random.randint(0, self._delay_ms_max), work)


class MemoryMembership:
    """Made by `MemoryRegistry.connect`, for one life of a node."""

    def __init__(self, registry: MemoryRegistry, loop: asyncio.AbstractEventLoop | None) -> None:
        self.is_cut = False
        self.entries = MemoryEntries(registry.tree, loop)
        self._registry = registry
        self._loop = loop
        self._node = ""
        self._info: NodeInfo | None = None
        self._listener: MembershipListener | None = None
        self._own: dict[tuple[str, int], None] = {}
        self._present: set[str] = set()  # addresses that the listener knows to have consumers
        self._asked: deque[Work] = deque()
        self._told: deque[Callable[[MembershipListener], None]] = deque()

    async def start(self, node: str, info: NodeInfo, listener: MembershipListener) -> None:
        self._node, self._info, self._listener = node, info, listener
        self._registry.add_node(self, node, info)
        self._tell_all(listener)

    def check(self, address: str) -> None:
        """Take every address."""

    def announce(self, address: str, number: int) -> None:
        self._own[address, number] = None
        self._ask(partial(self._register, address, number))

    def withdraw(self, address: str, number: int) -> None:
        self._own.pop((address, number), None)
        self._ask(partial(self._registry.unregister, address, self._node, number))

    async def close(self) -> None:
        self.entries.close()
        if self._listener is not None:
            self._listener = None
            self._registry.leave(self._node)

    def vanish(self) -> None:
        """Die as a process that was killed does: its entries stay until the session ends."""
        # One that has left has no entries.
        if self._listener is not None:
            self._listener = None
            self._registry.vanish(self._node)

    def enter(self) -> None:
        """Have all entries of this node be there, and hear all anew. Nothing where the registry is not reached."""
        if self._listener is None or self.is_cut:
            return
        assert self._info is not None
        known = {(address, number) for address, found in self._registry.registrations.items()
                 for node, number in found if node == self._node}  # fmt: skip
        self._registry.add_node(self, self._node, self._info)
        for address, number in sorted(known - set(self._own)):
            self._registry.unregister(address, self._node, number)
        for address, number in self._own:
            self._register(address, number)
        self.hear(self._tell_all)

    def hear(self, news: Callable[[MembershipListener], None]) -> None:
        """Let news arrive, after those before it."""
        if self.is_cut:
            return
        self._told.append(news)
        self._registry.later(self._news_came)

    def tell_counts(self, address: str, listener: MembershipListener) -> None:
        counts = self._registry.counts(address)
        if counts:
            self._present.add(address)
        else:
            self._present.discard(address)
        listener.registrations_changed(address, counts)

    def _register(self, address: str, number: int) -> None:
        self._registry.register(address, self._node, number)
        self.hear(lambda listener: listener.announced(number))

    def _news_came(self) -> None:
        # All nodes have one loop, and this is on it.
        if self._loop is None:
            self._take_news()
        else:
            self._loop.call_soon(self._take_news)

    def _take_news(self) -> None:
        news = self._told.popleft()
        if self._listener is not None and not self.is_cut:
            news(self._listener)

    def _ask(self, work: Work) -> None:
        self._asked.append(work)
        self._registry.later(self._take_asked)

    def _take_asked(self) -> None:
        work = self._asked.popleft()
        # What cannot arrive is made up for by `enter`, and a dead process asks nothing.
        if self._listener is not None and not self.is_cut:
            work()

    def _tell_all(self, listener: MembershipListener) -> None:
        listener.nodes_changed(dict(self._registry.nodes))
        # Those too that have lost all consumers while nothing was heard.
        for address in sorted(self._present | set(self._registry.registrations)):
            self.tell_counts(address, listener)
