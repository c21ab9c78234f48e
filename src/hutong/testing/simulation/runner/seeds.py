"""Simulations of many seeds, in several processes, reported in the order of the seeds.

Strategy: a seed is a whole simulation in one process. Each worker process takes the next seed that nobody has begun, so
the seeds that were tried are the same however fast the workers are. Only numbers and sentences come back: the trace
of a failure is made by running its seed once more.
"""

import gc
import logging
import os
import threading
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import Final, NamedTuple

from hutong.testing.simulation.buses.plan import BusPlan, draw_bus_plan
from hutong.testing.simulation.buses.simulation import BusSimulation
from hutong.testing.simulation.outcome import AnyPlan, SimulationOutcome
from hutong.testing.simulation.plan.drawing import draw_plan
from hutong.testing.simulation.simulation import Simulation
from hutong.testing.simulation.world import World

_AHEAD: Final = 4  # seeds begun for each worker before the oldest has been reported
_NEW_OBJECTS: Final = 100_000
"""Before a pass of the garbage collector. Each one looks at all that lives: with the default of 700 the passes took a
fifth of the time of three nodes. What they free, and when, is no part of a history."""
_SELDOM: Final = 100


class SeedResult(NamedTuple):
    """Of one seed."""

    seed: int
    errors: tuple[str, ...]
    trace_hash: str
    virtual_us: int


class SeedOptions(NamedTuple):
    """The options that decide on a plan together with the seed. `nodes` None: one, or of buses a drawn number."""

    minutes: float
    kinds: tuple[str, ...]
    nodes: int | None = None
    is_of_buses: bool = False

    def plan(self, seed: int) -> AnyPlan:
        if self.is_of_buses:
            return draw_bus_plan(seed, self.minutes, self.kinds, self.nodes)
        return draw_plan(seed, self.minutes, self.kinds, self.nodes or 1)


def run_seeds(seeds: Sequence[int], options: SeedOptions, jobs: int) -> Iterator[SeedResult]:
    """Results in the order of the seeds, as they come. Ending the iteration early ends the workers."""
    if jobs == 1:
        for seed in seeds:
            yield _run_seed(seed, options)
        return
    # Fresh processes: a fork would take over locks of this one's threads.
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent)
    waiting: deque[Future[SeedResult]] = deque()
    try:
        for seed in seeds:
            waiting.append(pool.submit(_run_seed, seed, options))
            if len(waiting) >= _AHEAD * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def simulated(plan: AnyPlan, *, keeps_trace: bool = False) -> SimulationOutcome:
    """Run one plan; the node's log goes to the trace alone."""
    # A killed process leaves coroutines that never began, some of them only until the garbage is collected later.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    with _garbage_kept():
        return _run(plan, keeps_trace=keeps_trace)


def _run(plan: AnyPlan, *, keeps_trace: bool) -> SimulationOutcome:
    simulation = _made(plan, keeps_trace=keeps_trace)
    with _log_to(simulation.world):
        return simulation.run()


def _made(plan: AnyPlan, *, keeps_trace: bool) -> Simulation | BusSimulation:
    if isinstance(plan, BusPlan):
        return BusSimulation(plan, keeps_trace=keeps_trace)
    return Simulation(plan, keeps_trace=keeps_trace)


def _run_seed(seed: int, options: SeedOptions) -> SeedResult:
    outcome = simulated(options.plan(seed))
    return SeedResult(seed, outcome.errors, outcome.trace_hash, outcome.virtual_us)


def _end_with_parent() -> None:
    """Let this worker process end when the one that started it is gone, as after SIGKILL."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="hutong-simulate-parent", daemon=True).start()


class _TraceHandler(logging.Handler):
    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.comment("log", f"{record.levelname.lower()}: {record.getMessage()}")


@contextmanager
def _log_to(world: World) -> Iterator[None]:
    """Put warnings and errors of the node's log into the trace, in the place of everywhere else."""
    logger = logging.getLogger("hutong")
    handlers, logger.handlers, propagates = logger.handlers, [_TraceHandler(world)], logger.propagate
    logger.propagate = False
    try:
        yield
    finally:
        logger.handlers, logger.propagate = handlers, propagates


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Collect garbage seldom, and what a simulation has left once nothing refers to it any more."""
    thresholds = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, _SELDOM, _SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.collect(1)  # the older generation has little of it: few passes have been
