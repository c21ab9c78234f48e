"""Shared parts of the tests of the bus: handlers that take notes, and waits for these notes."""

import asyncio
from collections.abc import Callable

from hutong.bus import Message


class Seen:
    """Notes what it is called with; any thread may call, the test's loop waits."""

    def __init__(self) -> None:
        self.items: list[object] = []
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def __call__(self, message: Message) -> None:
        self.note(message.body)

    def note(self, item: object) -> None:
        self.items.append(item)
        self._loop.call_soon_threadsafe(self._changed.set)

    async def wait_for(self, count: int) -> list[object]:
        await self.wait_until(lambda: len(self.items) >= count)
        return self.items

    async def wait_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._changed.clear()
            await self._changed.wait()


async def turns(count: int = 5) -> None:
    """Let everything that is queued in contexts of this loop happen."""
    for _ in range(count):
        await asyncio.sleep(0)
