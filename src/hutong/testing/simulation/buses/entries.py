"""The entries that nodes share, as one process reaches them: each request and each answer takes a time.

Strategy: a request takes effect between two drawn times. So what was read may be older than it seems, and a cut may
come between a change and its answer. News of changes takes a time, too, and waits for the end of a cut.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from typing import TypeVar

from hutong.bus.shared.memory import MemoryEntries
from hutong.bus.shared.port import Change, Changed, SharedEntry
from hutong.foundation.errors import CoordinatorUnavailable
from hutong.testing.simulation.hosts.loop import SimLoop

T = TypeVar("T")


class SimEntries:
    """As `EntryStore`, for what high availability asks for. `delay_ms_max` is of one way."""

    def __init__(self, entries: MemoryEntries, loop: SimLoop, random: Random, delay_ms_max: int) -> None:
        self._entries = entries
        self._loop = loop
        self._random = random
        self._delay_s_max = delay_ms_max / 1_000
        self._hooks: dict[Callable[[], object], Callable[[], object]] = {}

    async def read(self, path: str, changed: Changed | None = None) -> SharedEntry | None:
        return await self._ask(lambda: self._entries.read(path, self._later(changed)))

    async def names(self, path: str, changed: Changed | None = None) -> list[str] | None:
        return await self._ask(lambda: self._entries.names(path, self._later(changed)))

    async def create(self, path: str, content: bytes) -> bool:
        return await self._ask(lambda: self._entries.create(path, content))

    async def create_own(self, parent: str, label: str) -> str:
        return await self._ask(lambda: self._entries.create_own(parent, label))

    async def write(self, path: str, content: bytes, version: int | None = None) -> bool:
        return await self._ask(lambda: self._entries.write(path, content, version))

    async def remove(self, path: str, version: int | None = None) -> bool:
        return await self._ask(lambda: self._entries.remove(path, version))

    async def change(self, changes: Sequence[Change]) -> bool:
        return await self._ask(lambda: self._entries.change(changes))

    async def give_up(self, path: str) -> None:
        await self._entries.give_up(path)

    def add_loss_hook(self, lost: Callable[[], object]) -> None:
        # On the loop of the process: one that is stopped hears of it when it goes on.
        hook = self._hooks[lost] = partial(self._loop.call_soon, lost)
        self._entries.add_loss_hook(hook)

    def remove_loss_hook(self, lost: Callable[[], object]) -> None:
        hook = self._hooks.pop(lost, None)
        if hook is not None:
            self._entries.remove_loss_hook(hook)

    async def _ask(self, request: Callable[[], Awaitable[T]]) -> T:
        await asyncio.sleep(self._delay_s_max * self._random.random())
        answer = await request()
        await asyncio.sleep(self._delay_s_max * self._random.random())
        # What was asked for has happened.
        if self._entries.is_cut:
            raise CoordinatorUnavailable("the answer is lost")
        return answer

    def _later(self, changed: Changed | None) -> Changed | None:
        if changed is None:
            return None
        return lambda: self._loop.call_later(self._delay_s_max * self._random.random(), changed)
