"""The checker of blocked threads: says which handler holds up a loop or a worker, while it does.

Strategy: a thread checks every second. It asks each loop for a sign of life, and a loop that has not answered is
blocked, by a handler or by anything else; so handlers pay nothing, and no handler can be forgotten. What a worker
does now began when its pool says so. Only when something is late is the thread's stack read, and the handler found on
it (`stacks`). A loop that is blocked may seem so for up to a second less than it is.

A warning comes when a limit has passed, one with the stack when `stack_ms` has, one more every minute, and a word when
it is over. Knows nothing of what handlers do.
"""

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hutong.foundation.clock import Clock
from hutong.runtime.loops.loops import EventLoop
from hutong.runtime.threads.pools import WorkerPool
from hutong.runtime.watch.stacks import doing

REPEAT_MS: Final = 60_000
_log = logging.getLogger("hutong.blocked")


@dataclass(frozen=True, slots=True)
class BlockedLimits:
    """The times after which a thread counts as blocked."""

    loop_ms: int = 2_000
    worker_ms: int = 60_000
    stack_ms: int = 5_000  # from then on the warning shows the stack
    interval_ms: int = 1_000  # between two checks


DEFAULT_BLOCKED_LIMITS: Final = BlockedLimits()


class _Watch:
    """One thread: since when it is busy with one thing, and whether that was reported."""

    __slots__ = ("due_ms", "is_reported", "since_us")

    def __init__(self) -> None:
        self.since_us: int | None = None
        self.is_reported = False
        self.due_ms = 0  # how long it must be blocked for the next warning


class BlockedThreads:
    """Watches loops and pools from `start` to `stop`; `check` is one check, from any one thread.

    Figures: warnings_total.
    """

    def __init__(
        self,
        clock: Clock,
        loops: Sequence[EventLoop],
        pools: Callable[[], Iterable[WorkerPool]],
        limits: BlockedLimits,
        report: Callable[[str], None] = _log.warning,
    ) -> None:
        self.warnings_total = 0
        self._clock = clock
        self._loops = [(loop, _Watch()) for loop in loops]
        self._pools = pools
        self._workers: dict[int, _Watch] = {}  # thread id -> those seen at work
        self.limits = limits
        self._report = report
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._watch, name="hutong-blocked-checker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; waits for the check that is under way."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def check(self) -> None:
        now_us = self._clock.monotonic_us()
        for loop, watch in self._loops:
            self._look_at_loop(loop, watch, now_us)
        begun = [(pool, entry) for pool in self._pools() for entry in pool.begun_us.copy().items()]
        self._workers = {thread_id: self._workers.get(thread_id) or _Watch() for _, (thread_id, _) in begun}
        for pool, (thread_id, since_us) in begun:
            watch = self._workers[thread_id]
            if watch.since_us != since_us:
                watch.since_us, watch.is_reported = since_us, False
            self._judge(f"a thread of {pool.name}", thread_id, watch, now_us, self.limits.worker_ms)

    def _look_at_loop(self, loop: EventLoop, watch: _Watch, now_us: int) -> None:
        if loop.loop.is_closed():
            return  # another thread may have its thread's number by now
        if watch.since_us is not None:
            self._judge(loop.name, loop.thread_id, watch, now_us, self.limits.loop_ms)
            return
        if watch.is_reported:
            watch.is_reported = False
            self._report(f"{loop.name} turns again.")
        watch.since_us = now_us
        with suppress(RuntimeError):  # it was closed just now
            loop.loop.call_soon_threadsafe(self._alive, watch)

    @staticmethod
    def _alive(watch: _Watch) -> None:
        """On the loop."""
        watch.since_us = None

    def _judge(self, who: str, thread_id: int, watch: _Watch, now_us: int, limit_ms: int) -> None:
        since_us = watch.since_us
        if since_us is None:
            return  # it has just answered
        blocked_ms = (now_us - since_us) // 1_000
        if not watch.is_reported:
            watch.due_ms = limit_ms
        if blocked_ms < watch.due_ms:
            return
        frame = sys._current_frames().get(thread_id)
        what = None if frame is None else doing(frame)
        if what is None:
            return  # it is about to answer, or the whole machine stood still
        watch.is_reported = True
        stack_ms = self.limits.stack_ms
        watch.due_ms = stack_ms if blocked_ms < stack_ms else blocked_ms + REPEAT_MS
        sentence = f"{who} has been blocked for {blocked_ms / 1_000:.1f} s by {what}."
        if blocked_ms >= stack_ms:
            sentence += "\n" + "".join(traceback.format_stack(frame)).rstrip()
        self.warnings_total += 1
        self._report(sentence)

    def _watch(self) -> None:
        while not self._stop.wait(self.limits.interval_ms / 1_000):
            if self._loops[0][0].loop.is_closed():
                return  # its owner has ended without a word
            self.check()
