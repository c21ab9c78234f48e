"""Plans in which the power fails again and again while a few producers write to one partition.

Strategy: some of the others are made into one. What recovery must never do is believe bytes that an earlier crash has
left behind the end of the log. They can fit only where batches are of one size and few clients write, where several
chunks go with one flush, and where the next crash comes before everybody has written again. Drawn by themselves, these
meet in less than one plan of a thousand.
"""

import dataclasses
from random import Random
from typing import Final

from hutong.testing.simulation.plan.clients import PlannedReader
from hutong.testing.simulation.plan.draw_clients import writers
from hutong.testing.simulation.plan.faults import PlannedFault
from hutong.testing.simulation.plan.plan import SimulationPlan

_SHARE: Final = 0.15
_CRASHES: Final = ("power", "power", "kill")
_PRODUCERS: Final = 8
_FLUSH_US: Final = 20_000
_PAIR_US: Final = 200_000  # of crashes, one soon after the other: on average between two pairs
_LASTS_US: Final = 10_000


def with_outages(random: Random, plan: SimulationPlan, kinds: tuple[str, ...]) -> SimulationPlan:
    """The plan, or, in some cases, one made of it, if crashes are among the kinds of faults."""
    crashes = [kind for kind in _CRASHES if kind in kinds]
    if random.random() >= _SHARE or not crashes:
        return plan
    topic = plan.topics[0]
    producers = writers(random, topic, _PRODUCERS, (1, 20, 200), partitions=1, is_uniform=True)
    reader = PlannedReader(name="reader-0", topic=topic.name, partition=0, pause_ms=0, is_committed=False)
    begin_us = [random.randrange(plan.lasts_us) for _ in range(plan.lasts_us // _PAIR_US)]
    begin_us += [at_us + random.randrange(_LASTS_US, 10 * _LASTS_US) for at_us in begin_us]
    faults = [
        PlannedFault(at_us, random.choice(crashes), _LASTS_US, random.getrandbits(32)) for at_us in sorted(begin_us)
    ]
    return dataclasses.replace(
        plan,
        node=dataclasses.replace(plan.node, flush_us=_FLUSH_US, service_instances=0, remembers_calls=False),
        topics=plan.topics[:1],
        clients=(*producers, reader),
        faults=tuple(faults),
        share_groups=(),
    )
