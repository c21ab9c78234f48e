"""Hosts and the processes on them: clocks, pauses, crashes.

Strategy: a host outlives its processes; it has an address, a disk and a wall clock. A process has a loop and a
monotonic clock, which runs faster or slower than the world's by its drift. Each iteration of a loop takes some virtual
time, so that code which waits by asking the clock again and again comes to an end.

Knows nothing of nodes.
"""

import asyncio
import traceback
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from hutong.testing.simulation.hosts.loop import SimLoop
from hutong.testing.simulation.world import World, WorldEvent

if TYPE_CHECKING:
    from hutong.testing.simulation.network.network import SimNetwork

EPOCH_MS: Final = 1_700_000_000_000
ITERATION_US: Final = 20  # of virtual time at least
CALLBACK_US: Final = 5


class SimHost:
    """One machine. `process` is what runs on it, None while it is down."""

    def __init__(self, world: World, network: "SimNetwork", name: str, address: str) -> None:
        self.world = world
        self.network = network
        self.name = name
        self.address = address
        self.random = world.random(f"host {name}")
        self.drift_ppm = 0
        self.wall_offset_us = 0  # jumps of the wall clock
        self.process: SimProcess | None = None
        self.processes_total = 0
        self.failures: list[tuple[str, BaseException | None]] = []
        network.add_host(self)

    def start(self) -> "SimProcess":
        """A fresh process; the one before is gone."""
        assert self.process is None, f"{self.name} runs already"
        self.processes_total += 1
        self.process = SimProcess(self, f"{self.name}#{self.processes_total}")
        return self.process

    def kill(self, *, with_power: bool = False) -> None:
        """End the process as SIGKILL does: its kernel closes its connections. `with_power`: nobody closes them."""
        process, self.process = self.process, None
        if process is not None:
            # Before the network asks: a dead process's ends of connections are those to drop.
            process.end()
            self.network.process_ended(self, sends_reset=not with_power)

    @property
    def wall_ms(self) -> int:
        return EPOCH_MS + (self.world.now_us + self.wall_offset_us) // 1_000


class SimProcess:
    """One life of a program: a loop, its clock, and whether it is stopped."""

    def __init__(self, host: SimHost, name: str) -> None:
        self.host = host
        self.name = name
        self.world = host.world
        self.is_alive = True
        self.worked_us = 0  # processor time
        self.jobs_under_way: list[Callable[[], Any]] = []  # of workers, before their effect
        self._meeting: tuple[int, Callable[[], None]] | None = None  # jobs until then, and what happens amid the next
        self._random = Random(host.random.getrandbits(64))
        self._began_us = self.world.now_us
        self._rate = 1 + host.drift_ppm / 1_000_000
        self._free_at_us = 0  # when the iteration under way ends
        self._stopped_until_us = 0
        self._next: WorldEvent | None = None
        self._is_iterating = False
        self.loop = SimLoop(self, self._random)  # type: ignore[abstract]  # the rest of a loop is not used
        self.clock = SimClock(self)

    @property
    def local_us(self) -> int:
        return int((self.world.now_us - self._began_us) * self._rate)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def run(self, main: Callable[[], Any]) -> "asyncio.Task[Any]":
        """Run a coroutine function on the loop."""
        return self.loop.create_task(main())

    def stop_until(self, at_us: int) -> None:
        """As SIGSTOP and, at that time, SIGCONT."""
        self._stopped_until_us = max(self._stopped_until_us, at_us)

    @property
    def is_stopped(self) -> bool:
        return self.world.now_us < self._stopped_until_us

    def resume(self) -> None:
        """SIGCONT now."""
        self._stopped_until_us = self.world.now_us
        self._arrange()

    def job_begins(self, job: Callable[[], Any], effect_us: int) -> None:
        """A worker begins a job, which takes effect in `effect_us`."""
        self.jobs_under_way.append(job)
        if self._meeting is None:
            return
        jobs, callback = self._meeting
        self._meeting = (jobs - 1, callback) if jobs else None
        if not jobs:
            self.world.after(self._random.randrange(effect_us + 1), callback)

    def meet_job(self, number: int, callback: Callable[[], None]) -> None:
        """Call once, amid the job that begins after `number` others, before its effect."""
        self._meeting = (number, callback)

    def end(self) -> None:
        self.is_alive = False
        if self._next is not None:
            self._next.cancel()
        self.loop.kill()

    def failed(self, message: str, error: BaseException | None) -> None:
        """Code of this process raised what nobody handled: a defect, shown with its traceback."""
        where = "" if error is None else "".join(traceback.format_exception(error))
        self.world.note(self.name, f"fails: {message}: {error!r}")
        self.host.failures.append((f"{self.name}: {message}\n{where}", error))

    def wants_to_run(self) -> None:
        # At the end of an iteration the next one is arranged in any case.
        if not self._is_iterating and self.is_alive:
            self._arrange()

    def _arrange(self) -> None:
        """Have the next iteration run when it is due."""
        due_us = self._due_us()
        if due_us is None:
            return
        if self._next is not None and self._next.callback is not None:
            # One that is early finds nothing to do, and arranges the next.
            if self._next.at_us <= due_us:
                return
            self._next.cancel()
        self._next = self.world.at(due_us, self._iterate)

    def _due_us(self) -> int | None:
        now_us = self.world.now_us
        if self.loop.has_work:
            return max(now_us, self._free_at_us)
        timer_us = self.loop.next_timer_us()
        if timer_us is None:
            return None
        # Rounded up, or the timer would not be due yet by the process's own clock.
        at_us = self._began_us + int(timer_us / self._rate) + 1
        return max(now_us, self._free_at_us, at_us)

    def _iterate(self) -> None:
        now_us = self.world.now_us
        if now_us < self._stopped_until_us:
            self._next = self.world.at(self._stopped_until_us, self._iterate)
            return
        self._is_iterating = True
        try:
            callbacks = self.loop.iterate()
        finally:
            self._is_iterating = False
        took_us = ITERATION_US + CALLBACK_US * callbacks + self._random.randrange(CALLBACK_US)
        self.worked_us += took_us
        self._free_at_us = now_us + took_us
        # An iteration without work is an accident of cancelled timers; two runs agree on it, but say nothing by it.
        if callbacks:
            self.world.digest(self.name, callbacks)
        if self.is_alive:
            self._arrange()

    def open_connection(
        self, make: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> "asyncio.Future[tuple[asyncio.Transport, asyncio.BaseProtocol]]":
        return self.host.network.connect(self, make, host, port)

    def resolve(self, host: str | None, port: int) -> list[tuple[Any, Any, int, str, tuple[str, int]]]:
        return self.host.network.resolve(self.host, host, port)


class SimClock:
    """The clocks that a process sees."""

    def __init__(self, process: SimProcess) -> None:
        self._process = process

    def monotonic_ms(self) -> int:
        return self._process.local_us // 1_000

    def monotonic_us(self) -> int:
        return self._process.local_us

    def wall_ms(self) -> int:
        return self._process.host.wall_ms
