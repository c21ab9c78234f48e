"""`bus.shared`: counters, locks and maps that all nodes of a cluster have, or within one process.

Strategy: they are made of entries (`port.py`), which are in memory until the bus joins a cluster. So what a node alone
has kept is not taken along: a node joins before a program has its bus.

Knows no ZooKeeper.
"""

from hutong.bus.shared.counter import SharedCounter
from hutong.bus.shared.figures import SharedFigures
from hutong.bus.shared.lock import TIMEOUT_MS_DEFAULT, SharedLock
from hutong.bus.shared.map import SharedMap
from hutong.bus.shared.memory import MemoryEntries, MemoryTree
from hutong.bus.shared.port import EntryStore
from hutong.bus.shared.running import SharedWork, SharingBus


class SharedData:
    """Any thread may call. Each name leads to the same counter, lock or map on every node, also of Vert.x.

    What they give are promises: await them, or see `Promise`. They fail with CoordinatorUnavailable while ZooKeeper is
    not reached; what was asked for may then have happened. ProtocolError says that an entry has what nobody can read.
    """

    def __init__(self, bus: SharingBus) -> None:
        # Costs nothing before it is used, and a program has the same calls with a cluster and without.
        self._work = SharedWork(bus, MemoryEntries(MemoryTree()))

    def counter(self, name: str) -> SharedCounter:
        """A counter. Raises UsageError for a name that ZooKeeper cannot keep, as the others do."""
        return SharedCounter(self._work, name)

    def lock(self, name: str, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> SharedLock:
        """A lock, which is waited for as long as `timeout_ms`."""
        return SharedLock(self._work, name, timeout_ms)

    def map(self, name: str, *, codec: str | None = None) -> SharedMap:
        """A map from str or int to values. `codec` says what its values are in Java, as `"long"` does."""
        return SharedMap(self._work, name, codec)

    @property
    def figures(self) -> SharedFigures:
        """The figures of this moment. On the bus's loop."""
        return self._work.figures

    def use(self, store: EntryStore) -> None:
        """For a cluster: keep all of it there from now on. On the bus's loop."""
        self._work.store = store

    async def close(self) -> None:
        """For the bus and its cluster: end what is under way."""
        await self._work.close()
