"""Plans aimed at one rule of in-sync sets: a few producers and readers, and one sequence of events again and again.

Strategy: some of the plans of several nodes are made into one, as `draw_elections` does. A rule that keeps replicas
safe matters for some milliseconds, between two messages, and only if the right node is lost then. Drawn by themselves,
these never meet. So the fault waits for the moment (`faults/`); the plan leaves it time, and has no other fault.
"""

import dataclasses
from collections.abc import Sequence
from random import Random
from typing import Final

from hutong.testing.simulation.plan.clients import PlannedReader, PlannedShareMember
from hutong.testing.simulation.plan.draw_clients import writers
from hutong.testing.simulation.plan.faults import PlannedFault
from hutong.testing.simulation.plan.plan import PlannedMachine, PlannedShareGroup, SimulationPlan

_FLUSH_US: Final = (0, 0, 5_000, 20_000)
_QUICK: Final = ("lose_joined",)  # a decision must be quicker there than a slow link
_PRODUCERS: Final = 4
_READERS: Final = 4
_SHARING: Final = ("late_leader",)  # two nodes that keep the progress of one share group
_MEMBERS: Final = 4
_FIRST_US: Final = 500_000  # all are in sync by then
_BETWEEN_US: Final = 3_000_000
_LASTS_US: Final = {
    "deaf_leader": 5_000_000,  # longer than a session
    "late_proposal": 2_500_000,
    "lone_controller": 8_500_000,  # longer than a link may be silent, and then than others need to lead
    "lose_alone": 2_000_000,
    "late_set": 2_500_000,  # a link may be silent for three seconds
    "late_cut": 2_500_000,
}
_USUALLY_US: Final = 1_500_000
_DIRTY_BYTES_MAX: Final = 16 << 20  # as usual: with less, one that lacks much of the stream takes it a little at a time
_SETTINGS: Final = {"cluster.lag_ms_max": "500", "cluster.session_timeout_ms": "1000", "cluster.slots": "1"}


def with_aim(random: Random, plan: SimulationPlan, aimed: Sequence[str], share: float) -> SimulationPlan:
    """The plan, or, in that share of cases, one made of it with one of these kinds of faults, if there are any."""
    if random.random() >= share or not aimed:
        return plan
    kind, topic = random.choice(aimed), plan.topics[0]
    producers = writers(random, topic, _PRODUCERS, (5, 20), is_uniform=True)
    readers = [
        PlannedReader(name=f"reader-{number}", topic=topic.name, partition=0, pause_ms=0, is_committed=False)
        for number in range(_READERS)
    ]
    flush_us = (0,) if kind in _QUICK else _FLUSH_US
    groups: list[PlannedShareGroup] = []
    members: list[PlannedShareMember] = []
    if kind in _SHARING and random.random() < 0.5:
        groups = [PlannedShareGroup("tasks-0", topic.name, lock_ms=15_000, delivery_limit=10)]
        members = [
            PlannedShareMember(name=f"worker-{number}", topic=topic.name, pause_ms=10, group=groups[0].name)
            for number in range(_MEMBERS)
        ]
    lasts_us = _LASTS_US.get(kind, _USUALLY_US)
    faults = [
        PlannedFault(at_us, kind, lasts_us, random.getrandbits(32))
        for at_us in range(_FIRST_US, plan.lasts_us, max(_BETWEEN_US, lasts_us + _FIRST_US))
    ]
    settings = {**dict(plan.node.settings), **_SETTINGS}
    journal = {**dict(plan.node.journal), "dirty_bytes_max": _DIRTY_BYTES_MAX}
    return dataclasses.replace(
        plan,
        node=dataclasses.replace(
            plan.node,
            settings=tuple(settings.items()),
            journal=tuple(journal.items()),
            flush_us=random.choice(flush_us),
        ),
        topics=plan.topics[:1],
        clients=(*producers, *readers, *members),
        faults=tuple(faults),
        share_groups=tuple(groups),
        others=tuple(PlannedMachine(each.drift_ppm, random.choice(flush_us)) for each in plan.others),
    )
