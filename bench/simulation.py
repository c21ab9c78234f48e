"""The simulator's speed: virtual seconds for one second of processor time, for one node under a light load and at rest.

Strategy: the same plan in every turn, without faults, in this process: a simulation uses one processor and waits for
nothing, so processor time is all there is. The load is one producer with a batch twice a second and one reader, both
with the answers of a real node.
"""

import argparse
import dataclasses
import statistics
import time
from collections.abc import Sequence

from hutong.testing.simulation.plan.clients import PlannedProducer, PlannedReader
from hutong.testing.simulation.plan.drawing import draw_plan
from hutong.testing.simulation.plan.plan import SimulationPlan
from hutong.testing.simulation.runner.seeds import simulated

LIGHT = (
    PlannedProducer(name="producer-0", topic="orders", partition=0, pause_ms=500, acks=-1),
    PlannedReader(name="reader-0", topic="orders", partition=0, is_committed=False),
)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench simulation", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="virtual time of a turn")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args(words)
    for name, clients in (("light load", LIGHT), ("at rest", ())):
        plan = dataclasses.replace(draw_plan(1, options.minutes, ()), clients=clients, share_groups=())
        rates = sorted(_rate(plan) for _ in range(options.turns))
        print(f"{name}: {statistics.median(rates):,.0f} virtual s/s (of {rates[0]:,.0f} to {rates[-1]:,.0f})")
    return 0


def _rate(plan: SimulationPlan) -> float:
    begun_s = time.process_time()
    outcome = simulated(plan)
    assert not outcome.errors, outcome.errors
    return outcome.virtual_us / 1e6 / (time.process_time() - begun_s)
