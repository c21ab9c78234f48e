"""Shared entries in memory, for the nodes of one process: a bus alone, tests, and the simulator.

Strategy: one tree is what a ZooKeeper would hold, and each node has a session of it. A session that expires takes the
entries along that were created for it.

Belongs to one loop.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hutong.bus.shared.port import Change, Changed, CreateEntry, RemoveEntry, SharedEntry, WriteEntry
from hutong.foundation.errors import CoordinatorUnavailable, OwnerGone


@dataclass(slots=True)
class _Kept:
    content: bytes
    version: int = 0  # the number of its changes
    owner: int | None = None  # the number of a session
    names: set[str] = field(default_factory=set)  # of the entries below it


class MemoryTree:
    """The entries of one cluster."""

    def __init__(self) -> None:
        self._sessions = itertools.count(1)
        self._created = itertools.count()  # names by number are higher than those before, as in ZooKeeper
        self._entries: dict[str, _Kept] = {"": _Kept(b"")}
        self._watches: dict[str, dict[tuple[MemoryEntries, Changed], None]] = {}  # each fires once

    def session(self) -> int:
        return next(self._sessions)

    def number(self) -> int:
        return next(self._created)

    def entry(self, path: str) -> SharedEntry | None:
        kept = self._entries.get(path)
        return None if kept is None else SharedEntry(kept.content, kept.version)

    def names(self, path: str) -> list[str] | None:
        kept = self._entries.get(path)
        return None if kept is None else sorted(kept.names)

    def watch(self, path: str, node: "MemoryEntries", changed: Changed) -> None:
        """Have `changed` called after the next change of the entry's content, or of the names below it."""
        self._watches.setdefault(path, {})[node, changed] = None

    def create(self, path: str, content: bytes, owner: int | None = None) -> bool:
        if path in self._entries:
            return False
        parent, _, name = path.rpartition("/")
        self.create(parent, b"")  # nothing, where it is there
        self._entries[path] = _Kept(content, owner=owner)
        self._entries[parent].names.add(name)
        self._changed(path, parent)
        return True

    def write(self, path: str, content: bytes, version: int | None) -> bool:
        if not self.has(path, version):
            return False
        kept = self._entries[path]
        kept.content, kept.version = content, kept.version + 1
        self._changed(path)
        return True

    def remove(self, path: str, version: int | None = None) -> bool:
        if not self.has(path, version):
            return False
        parent, _, name = path.rpartition("/")
        del self._entries[path]
        self._entries[parent].names.discard(name)
        self._changed(path, parent)
        return True

    def has(self, path: str, version: int | None) -> bool:
        kept = self._entries.get(path)
        return kept is not None and version in (None, kept.version)

    def change(self, changes: Sequence[Change]) -> bool:
        """Do all of the changes, or none where one of them cannot be done.

        Each path is in one of them, or it is created and then removed.
        """
        created = {change.path for change in changes if isinstance(change, CreateEntry)}
        # All are checked before the first is made, so that nothing has to be undone.
        for change in changes:
            is_there = self.has(change.path, None)
            if isinstance(change, CreateEntry):
                if is_there:
                    return False
            elif change.path not in created and not self.has(change.path, change.version):
                return False
        for change in changes:
            match change:
                case CreateEntry(path, content):
                    self.create(path, content)
                case WriteEntry(path, content, version):
                    self.write(path, content, version)
                case RemoveEntry(path, version):
                    self.remove(path, version)
        return True

    def end(self, session: int) -> None:
        """Remove what was created for the session."""
        for path in [path for path, kept in self._entries.items() if kept.owner == session]:
            self.remove(path)

    def _changed(self, *paths: str) -> None:
        for path in paths:
            for node, changed in self._watches.pop(path, ()):
                node.tell(changed)


class MemoryEntries:
    """One node's access to a tree."""

    def __init__(self, tree: MemoryTree, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """`loop` is that of the node; None for the one that a change is made on."""
        self.is_cut = False  # the tree is not reached
        self._tree = tree
        self._loop = loop
        self._missed: dict[Changed, None] = {}  # news that came while the tree was not reached
        self._session = tree.session()
        self._lost: list[Callable[[], object]] = []
        self._given_up: list[str] = []  # while the tree was not reached
        self._is_closed = False

    async def read(self, path: str, changed: Changed | None = None) -> SharedEntry | None:
        self._check()
        entry = self._tree.entry(path)
        if changed is not None and entry is not None:
            self._tree.watch(path, self, changed)
        return entry

    async def names(self, path: str, changed: Changed | None = None) -> list[str] | None:
        self._check()
        names = self._tree.names(path)
        if changed is not None and names is not None:
            self._tree.watch(path, self, changed)
        return names

    async def create(self, path: str, content: bytes) -> bool:
        self._check()
        return self._tree.create(path, content)

    async def create_own(self, parent: str, label: str) -> str:
        self._check()
        name = f"{label}{self._tree.number():010}"
        self._tree.create(f"{parent}/{name}", b"", self._session)
        return name

    async def write(self, path: str, content: bytes, version: int | None = None) -> bool:
        self._check()
        return self._tree.write(path, content, version)

    async def remove(self, path: str, version: int | None = None) -> bool:
        self._check()
        return self._tree.remove(path, version)

    async def change(self, changes: Sequence[Change]) -> bool:
        self._check()
        return self._tree.change(changes)

    async def give_up(self, path: str) -> None:
        # As ZooKeeper's does: a lock that is released during a cut is free after it.
        if self.is_cut:
            self._given_up.append(path)
        else:
            self._tree.remove(path)

    def add_loss_hook(self, lost: Callable[[], object]) -> None:
        self._lost.append(lost)

    def remove_loss_hook(self, lost: Callable[[], object]) -> None:
        if lost in self._lost:
            self._lost.remove(lost)

    # -- faults, for tests and the simulator

    def expire(self) -> None:
        """End the session. The node has another one from then on."""
        self._tree.end(self._session)
        self._session = self._tree.session()
        self._tell_lost()

    def cut(self) -> None:
        """Let nothing through until `heal`."""
        self.is_cut = True

    def tell(self, changed: Changed) -> None:
        """Call `changed` soon; after a cut, where there is one."""
        if self.is_cut:
            self._missed[changed] = None
            return
        # Never within a call: who changes an entry may be watching it.
        loop = self._loop or asyncio.get_running_loop()
        loop.call_soon(changed)

    def heal(self) -> None:
        self.is_cut = False
        missed, self._missed = self._missed, {}
        for changed in missed:
            self.tell(changed)
        given_up, self._given_up = self._given_up, []
        for path in given_up:
            self._tree.remove(path)

    def close(self) -> None:
        """End the session in order."""
        self._is_closed = True
        self._tree.end(self._session)
        self._tell_lost()

    def _tell_lost(self) -> None:
        # A copy: a hook may remove itself.
        for lost in list(self._lost):
            lost()

    def _check(self) -> None:
        if self._is_closed:
            raise OwnerGone("this node has left the cluster")
        if self.is_cut:
            raise CoordinatorUnavailable("the entries are not reached")
