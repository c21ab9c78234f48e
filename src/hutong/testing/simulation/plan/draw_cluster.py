"""Plans of several nodes, each made of one of a single node: more machines, and faults between them.

Strategy: clients and topics stay as they are, except for services, which a cluster's nodes do not have. What
was acknowledged by the leader alone may be lost with it, as in Kafka, so all producers wait for all replicas.
"""

import dataclasses
from random import Random
from typing import Final

from hutong.testing.simulation.plan.clients import (
    PlannedBusMember,
    PlannedCaller,
    PlannedClient,
    PlannedMover,
    PlannedProducer,
)
from hutong.testing.simulation.plan.faults import CLUSTER_FAULTS, PlannedFault
from hutong.testing.simulation.plan.plan import PlannedMachine, SimulationPlan

NODES_MAX: Final = 9
REPLICAS_MAX: Final = 3
_ALL_REPLICAS: Final = -1
_MOVERS_SHARE: Final = 0.4  # of plans, and then of their topics
_Settings = list[tuple[str, str]]


def with_cluster(random: Random, plan: SimulationPlan, kinds: tuple[str, ...], nodes: int) -> SimulationPlan:
    """The plan for this number of nodes."""
    settings = [*plan.node.settings, *_cluster_settings(random, nodes)]
    others = [_machine(random, plan) for _ in range(nodes - 1)]
    faults = [*plan.faults, *_faults(random, plan.lasts_us, [kind for kind in CLUSTER_FAULTS if kind in kinds])]
    return dataclasses.replace(
        plan,
        node=dataclasses.replace(plan.node, settings=tuple(settings), service_instances=0, remembers_calls=False),
        clients=tuple(_in_a_cluster(client) for client in plan.clients if _is_served(client)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_us)),
        others=tuple(others),
    )


def with_movers(random: Random, plan: SimulationPlan) -> SimulationPlan:
    """The plan, in some cases with somebody who moves single partitions of topics."""
    if random.random() >= _MOVERS_SHARE:
        return plan
    movers = [
        PlannedMover(
            name=f"mover-of-{topic.name}",
            topic=topic.name,
            pause_ms=random.choice((200, 1_000, 5_000)),
            partitions=topic.partitions,
            nodes=plan.nodes,
            replicas=min(plan.nodes, REPLICAS_MAX),
            cancelled=random.choice((0.0, 0.3)),
        )
        for topic in plan.topics
        if random.random() < _MOVERS_SHARE
    ]
    return dataclasses.replace(plan, clients=(*plan.clients, *movers))


def _cluster_settings(random: Random, nodes: int) -> _Settings:
    settings = {
        "replicas": min(nodes, REPLICAS_MAX),
        "slots": random.choice((1, 2, 3)),
        # Shorter than most faults, and longer.
        "lag_ms_max": random.choice((500, 2_000, 10_000)),
        "session_timeout_ms": random.choice((1_000, 4_000)),
    }
    return [(f"cluster.{name}", str(value)) for name, value in settings.items()]


def _machine(random: Random, plan: SimulationPlan) -> PlannedMachine:
    return PlannedMachine(
        drift_ppm=random.choice((0, 0, -200, 200, 5_000)),
        flush_us=random.choice((plan.node.flush_us, plan.node.flush_us, 0, 20_000)),
    )


def _is_served(client: PlannedClient) -> bool:
    return not isinstance(client, PlannedCaller | PlannedBusMember)


def _in_a_cluster(client: PlannedClient) -> PlannedClient:
    if isinstance(client, PlannedProducer):
        return dataclasses.replace(client, acks=_ALL_REPLICAS)
    return client


def _faults(random: Random, lasts_us: int, kinds: list[str]) -> list[PlannedFault]:
    """Those of several nodes. Most plans have a few kinds, and some have none."""
    share = random.choice((0.1, 0.3))
    chosen = [kind for kind in kinds if random.random() < share]
    if not chosen:
        return []
    faults = []
    for _ in range(random.choice((1, 3, 8))):
        length_us = int(10 ** random.uniform(4, 7))  # from 10 ms, shorter than any patience, to 10 s
        at_us = random.randrange(lasts_us)
        faults.append(PlannedFault(at_us, random.choice(chosen), length_us, random.getrandbits(32)))
    return faults
