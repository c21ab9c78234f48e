"""Temporary topics: plans of crashes while they come and go, and the client that uses them."""

import dataclasses

from hutong.testing.simulation.clients.temporary import SimTemporaryUser
from hutong.testing.simulation.plan.clients import PlannedTemporaryUser
from hutong.testing.simulation.plan.drawing import draw_plan
from hutong.testing.simulation.plan.faults import kinds_of
from hutong.testing.simulation.plan.plan import SimulationPlan
from hutong.testing.simulation.simulation import Simulation

SEEDS = range(100)


def has_temporary_topics(plan: SimulationPlan) -> bool:
    return any(isinstance(client, PlannedTemporaryUser) for client in plan.clients)


def test_some_plans_have_nothing_but_temporary_topics_and_crashes() -> None:
    drawn = [plan for seed in SEEDS if has_temporary_topics(plan := draw_plan(seed, 0.1, kinds_of("all")))]
    assert drawn
    assert {fault.kind for plan in drawn for fault in plan.faults} == {"kill", "power"}
    assert all(len(plan.clients) == 1 and not plan.topics for plan in drawn)
    assert not any(has_temporary_topics(draw_plan(seed, 0.1, kinds_of("network"))) for seed in SEEDS)


def test_each_topic_is_written_and_read_whole() -> None:
    drawn = (draw_plan(seed, 0.05, kinds_of("power")) for seed in SEEDS)
    plan = next(plan for plan in drawn if has_temporary_topics(plan))
    simulation = Simulation(dataclasses.replace(plan, faults=()), keeps_trace=True)
    outcome = simulation.run()
    assert outcome.errors == ()
    (user,) = simulation._clients
    assert isinstance(user, SimTemporaryUser)
    reads = [line for _, _, line in outcome.lines if "finds 1 records" in line]
    assert len(reads) == user.values_total > user.topics_total > 1
