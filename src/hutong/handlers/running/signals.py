"""The end of a program that is asked to stop: SIGTERM and SIGINT.

Knows nothing of what runs.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def stopped_by_signal() -> AsyncIterator[asyncio.Event]:
    """Yield an event that the first signal sets. The second one ends the process as it would without us."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()

    def stop() -> None:
        stopped.set()
        _remove(loop)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        yield stopped
    finally:
        _remove(loop)


def _remove(loop: asyncio.AbstractEventLoop) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
