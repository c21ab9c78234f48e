"""Groups in whole simulations: they keep their promises, and a coordinator that breaks one is found."""

import dataclasses
from collections import Counter
from collections.abc import Iterator

import pytest

from hutong.groups.consumer.machine import ConsumerGroup
from hutong.testing.simulation.plan.clients import (
    PlannedClassicMember,
    PlannedConsumerMember,
    PlannedMember,
    PlannedProducer,
    PlannedReader,
)
from hutong.testing.simulation.plan.drawing import draw_plan
from hutong.testing.simulation.plan.faults import kinds_of
from hutong.testing.simulation.plan.plan import SimulationPlan
from hutong.testing.simulation.simulation import Simulation
from hutong.wire.kafka.error_codes import ErrorCode

MINUTES = 0.3
OTHERS = (PlannedProducer, PlannedReader)


def plans(kind: type[PlannedMember]) -> Iterator[SimulationPlan]:
    """Plans with several members of this kind, seed by seed."""
    seed = 0
    while True:
        seed += 1
        plan = draw_plan(seed, MINUTES, kinds_of("all"))
        members = [client for client in plan.clients if isinstance(client, PlannedMember)]
        if len(members) > 1 and {type(member) for member in members} == {kind}:
            # Without clients that have nothing to do with groups: the runs are shorter.
            kept = [each for each in plan.clients if isinstance(each, (PlannedMember, *OTHERS))]
            yield dataclasses.replace(plan, clients=tuple(kept), share_groups=())


@pytest.mark.parametrize("kind", [PlannedClassicMember, PlannedConsumerMember])
def test_members_of_either_protocol_keep_all_promises(kind: type[PlannedMember]) -> None:
    found = plans(kind)
    happened: Counter[str] = Counter()
    for _ in range(3):
        simulation = Simulation(next(found))
        assert simulation.run().errors == ()
        happened.update(type(each).__name__ for each in simulation._history.happenings)
    assert happened["PartitionsOwned"] > 3
    assert happened["OffsetCommitted"] > 3
    assert happened["MembershipConfirmed"] > 3


def plan_of_stalling_members(seed: int) -> SimulationPlan:
    """Without faults: members that are often removed from their group, and do not know it."""
    plan = draw_plan(seed, MINUTES, kinds_of("none"))
    times = {"group.consumer_session_timeout_ms": "2000", "group.consumer_min_session_timeout_ms": "2000"}
    settings = tuple((name, times.get(name, value)) for name, value in plan.node.settings)
    producer = PlannedProducer(name="producer-0", topic="orders", partition=0, pause_ms=100, acks=-1)
    members = [
        PlannedConsumerMember(
            name=f"member-{place}",
            topic="orders",
            pause_ms=20,
            group="group-0",
            is_committed=False,
            session_ms=2_000,
            rebalance_ms=3_000,
            may_stall=True,
            notices_silence=False,
        )
        for place in range(3)
    ]
    node = dataclasses.replace(plan.node, settings=settings)
    return dataclasses.replace(plan, node=node, clients=(producer, *members))


def test_a_coordinator_that_takes_commits_of_anybody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerGroup, "check_commit", lambda *_: ErrorCode.NONE)
    found = (Simulation(plan_of_stalling_members(seed)).run().errors for seed in range(1, 31))
    assert any("was accepted although" in " ".join(errors) for errors in found)
