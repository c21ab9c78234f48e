"""Calls in whole simulations: they keep their promises, and a client or a service that breaks one is found."""

import dataclasses
from collections import Counter
from collections.abc import Iterator

import pytest

from hutong.rpc.calling.caller import Caller
from hutong.rpc.calling.transport import Transport
from hutong.rpc.delivery.caller.retry import ReliableTransport
from hutong.rpc.options import CallOptions, Delivery
from hutong.testing.simulation.plan.clients import PlannedCaller
from hutong.testing.simulation.plan.drawing import draw_plan
from hutong.testing.simulation.plan.faults import kinds_of
from hutong.testing.simulation.plan.plan import SimulationPlan
from hutong.testing.simulation.simulation import Simulation

MINUTES = 0.3


def plans(kinds: str = "all") -> Iterator[SimulationPlan]:
    """Plans with callers, seed by seed, without other clients: the runs are shorter."""
    seed = 0
    while True:
        seed += 1
        plan = draw_plan(seed, MINUTES, kinds_of(kinds))
        callers = tuple(each for each in plan.clients if isinstance(each, PlannedCaller))
        if callers:
            yield dataclasses.replace(plan, clients=callers, share_groups=())


def test_calls_keep_all_promises() -> None:
    found = plans()
    happened: Counter[str] = Counter()
    for _ in range(5):
        simulation = Simulation(next(found))
        assert simulation.run().errors == ()
        happened.update(type(each).__name__ for each in simulation._history.happenings)
    assert min(happened[name] for name in ("CallCarriedOut", "CallAnswered", "CallUnanswered", "CallAbandoned")) > 10


def test_calls_of_one_seed_have_one_trace() -> None:
    plan = next(plans())
    assert Simulation(plan).run().trace_hash == Simulation(plan).run().trace_hash


def test_a_client_that_sends_again_what_may_be_sent_once_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def transport_for(caller: Caller, options: CallOptions) -> Transport:
        again = dataclasses.replace(options, delivery=Delivery.AT_LEAST_ONCE)
        return ReliableTransport(caller._make_reliable, caller.transport, again)  # type: ignore[arg-type]

    monkeypatch.setattr(Caller, "_transport_for", transport_for)
    found = plans("network")
    errors = [error for _ in range(10) for error in Simulation(next(found)).run().errors]
    assert any("1 attempts were allowed" in error for error in errors)
