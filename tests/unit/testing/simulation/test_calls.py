"""Calls and bus messages in whole simulations: they keep their promises, and a part that breaks one is found."""

import dataclasses
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.fault.call_ablations import executes_again_what_was_begun_before_a_restart
from tests.fault.rpc_ablations import (
    hands_over_the_newest_message_first,
    sends_again_what_may_be_sent_once,
)

from hutong.testing.simulation.plan.clients import PlannedBusMember, PlannedCaller
from hutong.testing.simulation.plan.drawing import draw_plan
from hutong.testing.simulation.plan.faults import kinds_of
from hutong.testing.simulation.plan.plan import SimulationPlan
from hutong.testing.simulation.simulation import Simulation

MINUTES = 0.3
SEEN = (
    "CallCarriedOut",
    "CallAnswered",
    "CallUnanswered",
    "CallAbandoned",
    "BusMessageSent",
    "BusMessageReceived",
    "StreamRead",
)


def plans(kinds: str = "all") -> Iterator[SimulationPlan]:
    """Plans with callers, seed by seed, without clients of Kafka: the runs are shorter."""
    seed = 0
    while True:
        seed += 1
        plan = draw_plan(seed, MINUTES, kinds_of(kinds))
        callers = tuple(each for each in plan.clients if isinstance(each, PlannedCaller | PlannedBusMember))
        if callers:
            yield dataclasses.replace(plan, clients=callers, share_groups=())


def test_calls_and_messages_keep_all_promises() -> None:
    found = plans()
    happened: Counter[str] = Counter()
    for _ in range(5):
        simulation = Simulation(next(found))
        assert simulation.run().errors == ()
        happened.update(type(each).__name__ for each in simulation._history.happenings)
    assert min(happened[name] for name in SEEN) > 10


def test_calls_of_one_plan_have_one_trace() -> None:
    plan = next(plans())
    assert Simulation(plan).run().trace_hash == Simulation(plan).run().trace_hash


def test_a_client_that_sends_again_what_may_be_sent_once_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sends_again_what_may_be_sent_once(monkeypatch)
    found = plans("network")
    assert any("1 attempts were allowed" in error for _ in range(10) for error in Simulation(next(found)).run().errors)


def plan_of_a_slow_listener(seed: int) -> SimulationPlan:
    """Without faults: more messages than a listener reads, so that some wait for it in the node."""
    plan = draw_plan(seed, MINUTES, kinds_of("none"))
    settings = (("bridge.max_unsent_bytes", "65536"), ("bridge.max_buffered_messages", "1000"))
    node = dataclasses.replace(plan.node, settings=settings, service_instances=1)
    usual = PlannedBusMember(
        name="sender",
        pause_ms=50,
        messages_together=50,
        timeout_ms=3_000,
        work_ms=0,
        padding_characters=2_000,
        is_listening=False,
        not_reading_ms=0,
    )
    listener = dataclasses.replace(usual, name="listener", is_listening=True, not_reading_ms=4_000, messages_together=1)
    return dataclasses.replace(plan, node=node, clients=(usual, listener), topics=(), share_groups=())


def test_a_bus_whose_messages_overtake_each_other_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Simulation(plan_of_a_slow_listener(1)).run().errors == ()
    hands_over_the_newest_message_first(monkeypatch)
    assert any(
        " after " in error for seed in (1, 2, 3) for error in Simulation(plan_of_a_slow_listener(seed)).run().errors
    )


def test_a_service_that_forgets_what_a_crash_broke_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = (plan for plan, _ in zip(plans("kill"), range(100), strict=False))
    remembered = [plan for plan in drawn if plan.node.remembers_calls and plan.faults]
    assert Simulation(remembered[0]).run().errors == ()
    executes_again_what_was_begun_before_a_restart(monkeypatch)
    assert any("carried out 2 times" in error for plan in remembered for error in Simulation(plan).run().errors)
