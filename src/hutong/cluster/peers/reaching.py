"""Attempts to reach one node at its known address, until there is a link or the address is no longer known.

Strategy: one attempt at a time. The first after a lost link is made at once, the next after pauses that grow. The node
with the lower number dials. The other one only asks whether anybody listens there: so it learns, too, that a process
is gone, long before its registration ends.

Knows nothing of handshakes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hutong.cluster.peers.limits import PeerLimits
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import Timer, TimerWheel
from hutong.remoting.dialling.machine import BackOff


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """The address of one life of a node."""

    host: str
    port: int
    incarnation: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(slots=True)
class ReachingServices:
    """The services that all attempts of a network share."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    wheel: TimerWheel
    limits: PeerLimits
    chance: Callable[[], float]


class Reaching:
    """`attempt` returns once somebody has answered: True where a link may come of it. It raises OSError or HutongError.

    `refused` is called where nobody listens, and returns True to go on; `failed` with any other error.
    """

    def __init__(
        self,
        attempt: Callable[[], Awaitable[bool]],
        refused: Callable[[], bool],
        failed: Callable[[Exception], None],
        around: ReachingServices,
    ) -> None:
        self._attempt = attempt
        self._refused = refused
        self._failed = failed
        self._around = around
        self._back_off = BackOff(around.limits.back_off_ms, around.limits.back_off_ms_max)
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def begin(self) -> None:
        """Try now."""
        self._stop()
        if not self._is_closed:
            self._task = self._around.loop.create_task(self._try())

    def try_later(self) -> None:
        """Try after a pause."""
        self._stop()
        if self._is_closed:
            return
        now_ms = self._around.clock.monotonic_ms()
        self._back_off.failed(now_ms, self._around.chance())
        self._timer = self._around.wheel.add(now_ms + self._back_off.pause_ms(now_ms), self.begin)

    def linked(self) -> None:
        """There is a link: no further attempts."""
        self._stop()

    def link_ended(self, lasted_ms: int) -> None:
        """Try at once, unless links end as soon as they begin."""
        if lasted_ms < self._around.limits.lasting_ms:
            self.try_later()
            return
        self._back_off.succeeded()
        self.begin()

    def close(self) -> "asyncio.Task[None] | None":
        """Give up; returns the attempt that ends, if there is one."""
        self._is_closed = True
        task = self._task
        self._stop()
        return task

    async def _try(self) -> None:
        try:
            goes_on = not await self._attempt()
        except ConnectionRefusedError:
            self._task = None
            goes_on = self._refused()
        except (OSError, HutongError) as error:
            self._task = None
            goes_on = True
            self._failed(error)
        else:
            self._task = None
        # Those who heard of it may have begun anew.
        if goes_on and self._timer is None and self._task is None:
            self.try_later()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()
            self._task = None
