"""Both sides in two processes over loopback: Zhang listens here, Li dials from a process of its own.

Strategy: Li is this very program called with `dial`, so what is measured is what a user runs by hand. Time begins when
the connection stands and ends when Zhang has heard every line and Li, who leaves once it has heard every line, has
left: starting the second process does not count. Knows nothing of lines.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from hutong.foundation.errors import ProtocolError

T = TypeVar("T")
Ready = Callable[[tuple[str, int]], None]
_HOST: Final = "127.0.0.1"


async def both(zhang: Callable[[str, int, Ready], Awaitable[T]], li: list[str]) -> tuple[T, str]:
    """Run `zhang` on a free port, and `hutong bench meet dial HOST:PORT` with the words of `li`.

    Returns what `zhang` did and what Li's side printed. Raises ProtocolError where Li's side ended with an error, which
    it has told on standard error by then, and whatever `zhang` raises.
    """
    bound: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()
    return await asyncio.gather(zhang(_HOST, 0, bound.set_result), _li(bound, li))


async def _li(bound: "asyncio.Future[tuple[str, int]]", words: list[str]) -> str:
    host, port = await bound
    command = [sys.executable, "-m", "hutong", "bench", "meet", "dial", f"{host}:{port}", *words]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ProtocolError(f"Li's side ended with exit status {process.returncode}")
    return printed.decode()
