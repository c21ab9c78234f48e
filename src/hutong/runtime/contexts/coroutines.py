"""The coroutines that handlers of one context returned: driven as tasks, kept until they end, cancelled together.

Knows of the loop only that it makes tasks; all calls come from it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol


class CoroutineOwner(Protocol):
    """A context."""

    def fail(self, error: BaseException) -> None: ...


class Coroutines:
    """Tasks on one loop; what they raise goes to `owner.fail`. A loop itself holds its tasks only weakly."""

    __slots__ = ("_is_closed", "_loop", "_tasks", "owner")

    def __init__(self, loop: asyncio.AbstractEventLoop, owner: CoroutineOwner) -> None:
        self.owner = owner
        self._loop = loop
        self._is_closed = False
        self._tasks: dict[Coroutine[Any, Any, object], asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, handler: Coroutine[Any, Any, object]) -> None:
        """Drive it from the loop's next iteration on; once closed, as far as to its first wait."""
        task = self._tasks[handler] = self._loop.create_task(self.drive(handler))
        if self._is_closed:
            self._loop.call_soon(task.cancel)  # after its first step: what never began could not clean up either

    async def drive(self, handler: Coroutine[Any, Any, object]) -> None:
        try:
            await handler
        # GeneratorExit: it is closed because its loop is gone, which is no failure of the handler's.
        except (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError):
            raise
        except BaseException as error:  # noqa: BLE001  # a supervisor: whatever it is, the others go on
            self.owner.fail(error)
        finally:
            del self._tasks[handler]

    def close(self) -> None:
        """Cancel every coroutine that is started from now on."""
        self._is_closed = True

    async def cancel(self, *, is_last: bool = False) -> None:
        """End all but the caller's own; returns when they have ended. `is_last` is `close` as well."""
        self._is_closed = self._is_closed or is_last
        tasks = [task for task in self._tasks.values() if task is not asyncio.current_task()]
        await asyncio.sleep(0)  # those that were just started begin
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
