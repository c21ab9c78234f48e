"""Verticles that other nodes of a test can make by their names."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from hutong.runtime.verticles import Verticle

running: list["Shown"] = []
"""All that run now, on whichever node."""
starts: Counter[str] = Counter()
"""By the name in the configuration."""
unable: set[Any] = set()
"""Runtimes on which none can start."""


class News:
    """Wakes those that wait, at whatever happens on one of the nodes: on the test's loop."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Event] = []

    def notice(self) -> None:
        for waiting in self._waiting:
            waiting.set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until it holds; the test's own timeout is the bound."""
        happened = asyncio.Event()
        self._waiting.append(happened)
        while not condition():
            happened.clear()
            await happened.wait()
        self._waiting.remove(happened)


news = News()


class Shown(Verticle):
    """One that is in `running` while it runs."""

    async def start(self) -> None:
        if self.runtime in unable:
            raise RuntimeError("not on this node")
        starts[self.config.get("name", "")] += 1
        running.append(self)
        self._notice()

    async def stop(self) -> None:
        running.remove(self)
        self._notice()

    def _notice(self) -> None:
        # One in a worker context is on another thread.
        self.runtime._first.loop.call_soon_threadsafe(news.notice)


class Stubborn(Shown):
    """One whose end fails."""

    async def stop(self) -> None:
        await super().stop()
        raise RuntimeError("it would not stop")


class Outer:
    """A place for a verticle that is not at the top of its module."""

    class Inner(Shown):
        pass


class NoVerticle:
    pass
