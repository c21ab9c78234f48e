"""Plans in which leaders are lost again and again, each amid a change, while a few producers write.

Strategy: some of the plans of several nodes are made into one, as `draw_outages` does. What an in-sync set must never
do is let somebody lead who lacks what was acknowledged. That takes a set that changes, or disks that are not alike, a
crash within a moment, and somebody to write in that moment. Drawn by themselves, these hardly meet.
"""

import dataclasses
from random import Random
from typing import Final

from hutong.testing.simulation.plan.clients import PlannedReader
from hutong.testing.simulation.plan.draw_clients import writers
from hutong.testing.simulation.plan.faults import PlannedFault
from hutong.testing.simulation.plan.plan import PlannedMachine, SimulationPlan

_SHARE: Final = 0.25
_AIMED: Final = ("lose_leader", "lose_leader", "power_leader_last")
_OTHERS: Final = ("kill", "power", "isolate", "isolate_one_way", "pause", "slow_peers", "lost_session")
_FLUSH_US: Final = (0, 5_000, 50_000)
_PRODUCERS: Final = 4
_PAIR_US: Final = 1_000_000  # between two of the aimed ones, each with another one just before it
_LASTS_US: Final = (100_000, 400_000, 1_500_000)
_SETTINGS: Final = {"cluster.lag_ms_max": "500", "cluster.session_timeout_ms": "1000", "cluster.slots": "1"}


def with_elections(random: Random, plan: SimulationPlan, kinds: tuple[str, ...]) -> SimulationPlan:
    """The plan, or, in some cases, one made of it, if such faults are among the kinds."""
    aimed, others = ([kind for kind in wanted if kind in kinds] for wanted in (_AIMED, _OTHERS))
    if random.random() >= _SHARE or not aimed or not others:
        return plan
    topic = plan.topics[0]
    producers = writers(random, topic, _PRODUCERS, (5, 20))
    reader = PlannedReader(name="reader-0", topic=topic.name, partition=0, pause_ms=0, is_committed=False)
    faults = []
    for begin_us in range(_PAIR_US // 2, plan.lasts_us, _PAIR_US):
        at_us = begin_us + random.randrange(_PAIR_US)
        for kind, when_us in ((random.choice(others), begin_us), (random.choice(aimed), at_us)):
            faults.append(PlannedFault(when_us, kind, random.choice(_LASTS_US), random.getrandbits(32)))
    return dataclasses.replace(
        plan,
        node=dataclasses.replace(
            plan.node,
            settings=tuple({**dict(plan.node.settings), **_SETTINGS}.items()),
            flush_us=random.choice(_FLUSH_US),
        ),
        topics=plan.topics[:1],
        clients=(*producers, reader),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_us)),
        share_groups=(),
        others=tuple(PlannedMachine(each.drift_ppm, random.choice(_FLUSH_US)) for each in plan.others),
    )
