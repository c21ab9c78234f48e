"""The entries that all nodes of a bus share: bytes by path, with versions, and entries that end with a session.

    one process, tests, the simulator   `memory`
    ZooKeeper                           `clustered/membership/zookeeper/entries.py`

Strategy: what ZooKeeper offers, and no more: counters, locks and maps are made of it once, for every implementation.
Paths are relative, as in `counters/hits`. Everything belongs to one loop, the bus's own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

Changed: TypeAlias = Callable[[], object]
"""Called once, soon after the next change, or when the connection that would tell of it has ended."""
CONTENT_BYTES_MAX: Final = 1_000_000
"""Of one entry: a request has 1 MiB in ZooKeeper (jute.maxbuffer), its path included."""


class SharedEntry(NamedTuple):
    """The content of one entry, and the number of its changes."""

    content: bytes
    version: int  # 0 after its creation


@dataclass(frozen=True, slots=True)
class CreateEntry:
    """Create an entry that is not there. Its parent is there already."""

    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class WriteEntry:
    """Replace the content of an entry that has this version."""

    path: str
    content: bytes
    version: int


@dataclass(frozen=True, slots=True)
class RemoveEntry:
    """Remove an entry; one that has this version, where there is one."""

    path: str
    version: int | None = None  # None: whichever it has


Change: TypeAlias = CreateEntry | WriteEntry | RemoveEntry


class EntryStore(Protocol):
    """One node's access. Every call raises CoordinatorUnavailable where the service is not reached.

    What was asked for may then have happened. After `close` they raise OwnerGone.
    """

    async def read(self, path: str, changed: Changed | None = None) -> SharedEntry | None:
        """The entry; None where there is none, and then nothing is watched."""
        ...

    async def names(self, path: str, changed: Changed | None = None) -> list[str] | None:
        """The names of the entries below, in order; None where there is no such entry, and then nothing is watched."""
        ...

    async def create(self, path: str, content: bytes) -> bool:
        """Create an entry, and its parents. False where it is there."""
        ...

    async def create_own(self, parent: str, label: str) -> str:
        """Create an entry that ends with this node's session, and return its name.

        The name ends with the label and a number that is higher than those before.
        """
        ...

    async def write(self, path: str, content: bytes, version: int | None = None) -> bool:
        """Replace a content. False where there is no such entry, or where it has another version."""
        ...

    async def remove(self, path: str, version: int | None = None) -> bool:
        """Remove an entry. False where there is none, or where it has another version."""
        ...

    async def change(self, changes: Sequence[Change]) -> bool:
        """Do all of the changes at once, or none and return False."""
        ...

    async def give_up(self, path: str) -> None:
        """Remove an entry of `create_own`: now, or once the service is reached again."""
        ...

    def add_loss_hook(self, lost: Callable[[], object]) -> None:
        """Call `lost` each time that this node's session may have ended, with all that it had created for itself."""

    def remove_loss_hook(self, lost: Callable[[], object]) -> None: ...
