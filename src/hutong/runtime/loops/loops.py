"""Event loops: the one that a runtime is made on, and those that run in threads of their own.

Each has a timer wheel, which only its own thread may touch. Knows nothing of what runs on a loop.
"""

import asyncio
import threading

from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.runtime.loops.timers import LoopTimers


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed, else asyncio's: that with selectors, since the reactor watches sockets."""
    try:
        import uvloop
    except ImportError:
        return asyncio.SelectorEventLoop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class EventLoop:
    """A loop, the thread that runs it, and its timers."""

    __slots__ = ("_clock", "_timers", "loop", "name", "thread_id", "wheel")

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop, thread_id: int, clock: Clock) -> None:
        self.name = name
        self.loop = loop
        self.thread_id = thread_id
        self.wheel = TimerWheel(clock.monotonic_ms())
        self._timers = LoopTimers(loop, self.wheel, clock)

    @classmethod
    def running(cls, name: str, clock: Clock) -> "EventLoop":
        """The one that the caller runs on."""
        return cls(name, asyncio.get_running_loop(), threading.get_ident(), clock)

    def stop(self) -> None:
        """Leave the timers unfired. On the loop's own thread."""
        self._timers.close()


class ThreadedEventLoop(EventLoop):
    """A loop in a thread of its own, from its making until `end`."""

    __slots__ = ("_thread",)

    def __init__(self, name: str, clock: Clock) -> None:
        loop = new_event_loop()
        # A daemon thread, so that a process whose owner failed to close still ends.
        self._thread = threading.Thread(target=_run, args=(loop,), name=name, daemon=True)
        self._thread.start()
        assert self._thread.ident is not None
        super().__init__(name, loop, self._thread.ident, clock)

    async def end(self, timeout_ms: int | None = None) -> bool:
        """Stop the loop once what is ready has run, and wait for its thread; called from another loop.

        False if a handler still blocks it after `timeout_ms`.
        """
        waiter = asyncio.get_running_loop()
        self.loop.call_soon_threadsafe(self._stop)
        await waiter.run_in_executor(None, self._thread.join, None if timeout_ms is None else timeout_ms / 1_000)
        return not self._thread.is_alive()

    def _stop(self) -> None:
        self.stop()
        self.loop.stop()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
