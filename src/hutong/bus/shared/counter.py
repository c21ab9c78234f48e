"""A counter that all nodes share: Curator's DistributedAtomicLong.

Strategy: read, then write if the version is still the same; otherwise again. Callers of one process take turns, since
otherwise each of them would undo the attempts of all others.

Knows no ZooKeeper.
"""

import struct
from collections.abc import Callable
from typing import Final

from hutong.bus.shared.names import checked_name
from hutong.bus.shared.port import EntryStore
from hutong.bus.shared.running import SharedWork
from hutong.bus.waiting.promise import Promise
from hutong.foundation.errors import LimitExceeded, ProtocolError

COUNTER_MAX: Final = (1 << 63) - 1
ATTEMPTS_MAX: Final = 1_000
"""To change a counter that other nodes change at the same time."""
_LONG: Final = struct.Struct(">q")


class SharedCounter:
    """Made by `bus.shared.counter`. Its value is a whole number of 64 bits, 0 at first. Any thread may call."""

    def __init__(self, work: SharedWork, name: str) -> None:
        """Raises UsageError for a name that ZooKeeper cannot keep."""
        self.name = checked_name(name, "counter")
        self._work = work
        self._path = f"counters/{name}"

    def get(self) -> Promise[int]:
        """The value."""
        return self._work.run(self._get)

    def increment(self) -> Promise[int]:
        """Add 1. Gives the new value."""
        return self.add(1)

    def add(self, amount: int) -> Promise[int]:
        """Add an amount, which may be negative. Gives the new value.

        Fails with LimitExceeded where the value would need more than 64 bits, and nothing is changed then.
        """
        # Here and not in the work: the caller's own fault is raised where it calls.
        _checked(amount)

        def added(value: int) -> int:
            if not -COUNTER_MAX - 1 <= value + amount <= COUNTER_MAX:
                raise LimitExceeded("counter_max", COUNTER_MAX)  # Java's long would become negative
            return value + amount

        async def add(store: EntryStore) -> int:
            changed = await self._change(store, added)
            assert changed is not None, "every value may be added to"
            return changed

        return self._work.run(add)

    def compare_and_set(self, expected: int, value: int) -> Promise[bool]:
        """Set the value if it is `expected` now. Gives False where it is another one."""
        _checked(expected)
        _checked(value)

        async def compare_and_set(store: EntryStore) -> bool:
            return await self._change(store, lambda found: value if found == expected else None) is not None

        return self._work.run(compare_and_set)

    async def _get(self, store: EntryStore) -> int:
        entry = await store.read(self._path)
        # Nobody has changed it yet. Nothing is written then, as in Vert.x.
        return 0 if entry is None else self._decoded(entry.content)

    async def _change(self, store: EntryStore, decide: Callable[[int], int | None]) -> int | None:
        """Write the value that `decide` makes of the present one, and return it; None where it makes none."""
        async with self._work.turn(self._path):
            for _ in range(ATTEMPTS_MAX):
                entry = await store.read(self._path)
                value = decide(0 if entry is None else self._decoded(entry.content))
                # A comparison that does not hold.
                if value is None:
                    return None
                content = _LONG.pack(value)
                # Without an entry there is no version, and who creates it first is first.
                if entry is None:
                    is_done = await store.create(self._path, content)
                else:
                    is_done = await store.write(self._path, content, entry.version)
                if is_done:
                    return value
        raise LimitExceeded("attempts_max", ATTEMPTS_MAX)

    def _decoded(self, content: bytes) -> int:
        # Curator reads an entry without content as 0.
        if not content:
            return 0
        if len(content) != _LONG.size:
            raise ProtocolError(f"the shared counter {self.name!r} has {len(content)} bytes, which are no number")
        value: int = _LONG.unpack(content)[0]
        return value


def _checked(value: int) -> None:
    if type(value) is not int:  # bool is a subclass of int
        raise TypeError(f"a shared counter takes an int, not {type(value).__name__}")
    if not -COUNTER_MAX - 1 <= value <= COUNTER_MAX:
        raise ValueError(f"{value} does not fit into 64 bits")
