"""Whole simulations of several nodes: they keep their promises, repeat, and go on without one of them."""

import dataclasses
import os
import subprocess
import sys
from itertools import count
from random import Random

import pytest

from hutong.foundation.errors import FlushFailed
from hutong.testing.simulation.history import ValueAcknowledged
from hutong.testing.simulation.outcome import SimulationOutcome
from hutong.testing.simulation.plan.clients import PlannedProducer
from hutong.testing.simulation.plan.drawing import draw_plan
from hutong.testing.simulation.plan.faults import PlannedFault, kinds_of
from hutong.testing.simulation.plan.plan import SimulationPlan
from hutong.testing.simulation.simulation import Simulation

MINUTES = 0.05
SECOND_US = 1_000_000


def outcome_of(seed: int, kinds: str = "all") -> SimulationOutcome:
    return Simulation(draw_plan(seed, MINUTES, kinds_of(kinds), 3)).run()


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_cluster_breaks_no_promise(seed: int) -> None:
    assert outcome_of(seed).errors == ()


def test_a_seed_of_a_cluster_has_one_trace_whatever_the_hashes_of_strings_are() -> None:
    program = "from tests.unit.testing.simulation.test_cluster import outcome_of; print(outcome_of(6).trace_hash)"
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in (1, 2)
    }
    assert len(hashes) == 1


def plan_of_one_fault(kind: str, victim: int) -> SimulationPlan:
    """Producers of all partitions, and a fault of a node that lasts until the end, without anybody who repairs it."""
    plan = draw_plan(1, 0.3, (), 3)
    topic = dataclasses.replace(plan.topics[0], partitions=3)
    producers = [
        PlannedProducer(name=f"producer-{index}", topic=topic.name, partition=index, acks=-1, pause_ms=100)
        for index in range(topic.partitions)
    ]
    number = next(number for number in range(100) if Random(number).choice(range(3)) == victim)
    fault = PlannedFault(2 * SECOND_US, kind, 60 * SECOND_US, number)
    return dataclasses.replace(plan, topics=(topic,), clients=tuple(producers), faults=(fault,))


@pytest.mark.parametrize("kind", ["failing_flush", "kill", "power", "pause", "cut_coordinator"])
@pytest.mark.parametrize("victim", range(3))
def test_the_partitions_of_a_node_that_fails_are_written_by_way_of_another(kind: str, victim: int) -> None:
    simulation = Simulation(plan_of_one_fault(kind, victim))
    assert simulation.run().errors == ()
    happenings = [each for each in simulation._history.happenings if isinstance(each, ValueAcknowledged)]
    # A client gives a paused node five seconds, and perhaps as many again when it asks it for the next leader.
    served = {each.place[1] for each in happenings if 9 * SECOND_US < each.at_us < 18 * SECOND_US}
    assert served == {0, 1, 2}


@pytest.mark.parametrize(
    ("kind", "happening"),
    [
        ("lose_joined", "is killed"),
        ("cut_joined", "is killed"),
        ("lose_disk", "loses its disk"),
        ("late_proposal", "loses its disk"),
        ("deaf_leader", "is over"),
        ("late_leader", "is over"),
        ("lone_controller", "is over"),
    ],
)
def test_a_cluster_survives_what_is_aimed_at_a_rule(kind: str, happening: str) -> None:
    minutes = 0.2 if kind == "lone_controller" else 0.1  # it takes nine seconds
    plans = (draw_plan(seed, minutes, (kind,), 3) for seed in count())
    for plan in (plan for plan in plans if plan.faults):
        outcome = Simulation(plan, keeps_trace=True).run()
        assert outcome.errors == ()
        # A sequence may end early, where the nodes do not happen to lead what they should.
        if any(who == "fault" and happening in what for _, who, what in outcome.lines):
            break


@pytest.mark.parametrize("kind", ["late_set", "late_cut"])
def test_a_wide_cluster_survives_late_words_of_a_former_leader(kind: str) -> None:
    plans = (draw_plan(seed, 0.1, (kind,), 5) for seed in count())
    for plan in (plan for plan in plans if plan.faults):
        outcome = Simulation(plan, keeps_trace=True).run()
        assert outcome.errors == ()
        # A sequence may end early, where the controller is a replica, or leads the group.
        if any(who == "fault" and "is killed" in what for _, who, what in outcome.lines):
            break


def test_a_controller_that_could_commit_alone_is_replaced_too() -> None:
    """With `cluster.min_in_sync` below the majority."""
    plan = next(plan for seed in count() if (plan := draw_plan(seed, 0.2, ("lone_controller",), 3)).faults)
    settings = {**dict(plan.node.settings), "cluster.min_in_sync": "1"}
    plan = dataclasses.replace(plan, node=dataclasses.replace(plan.node, settings=tuple(settings.items())))
    assert Simulation(plan).run().errors == ()


def test_a_machine_without_processor_time_changes_no_set() -> None:
    """All nodes stand still for longer than a member may be late, as on a machine that is too busy."""
    plan = draw_plan(1, MINUTES, (), 3)
    settings = {**dict(plan.node.settings), "cluster.lag_ms_max": "1000", "cluster.session_timeout_ms": "4000"}
    node = dataclasses.replace(plan.node, flush_us=0, settings=tuple(settings.items()))
    quick = tuple(dataclasses.replace(machine, flush_us=0) for machine in plan.others)
    simulation = Simulation(dataclasses.replace(plan, node=node, others=quick, clients=()))
    world, nodes = simulation.world, simulation._nodes

    def versions() -> set[tuple[str, int, int]]:
        states = [each.state for node in nodes for each in node.replicas.values()]
        return {(state.name, state.epoch, state.version) for state in states if state is not None}

    for each in nodes:
        each.start()
    world.run(SECOND_US, lambda: all(each.is_ready for each in nodes))
    world.run(world.now_us + 8 * SECOND_US)  # until all have joined, and those lead that are preferred
    before = versions()
    for each in nodes:
        each.pause(SECOND_US * 3 // 2)
    world.run(world.now_us + 3 * SECOND_US)
    assert versions() == before
    for each in nodes:
        each.host.kill()


def test_a_node_ends_where_it_cannot_store_the_metadata_that_its_start_waits_for() -> None:
    """Else nobody would start it again: it is up, and serves nobody."""
    plan = draw_plan(1, MINUTES, (), 3)
    quick = tuple(dataclasses.replace(machine, flush_us=0) for machine in plan.others)
    # The end of the journal is newer than the checkpoint, so that a start does not know whether it is committed.
    journal = tuple({**dict(plan.node.journal), "checkpoint_interval_bytes": 4096}.items())
    node = dataclasses.replace(plan.node, flush_us=0, journal=journal)
    simulation = Simulation(dataclasses.replace(plan, node=node, others=quick, clients=()))
    world, nodes = simulation.world, simulation._nodes
    for each in nodes:
        each.start()
    world.run(SECOND_US, lambda: all(each.is_ready for each in nodes))
    leader = next(state.leader for each in nodes if (state := each.replicas["metadata"].state) is not None)
    victim = next(each for each in nodes if each.number != leader)
    for each in nodes:
        if each is not victim:  # nobody says what of its journal is committed, nor that it is in sync no more
            each.pause(SECOND_US)
    victim.kill()
    assert simulation._ensemble is not None
    simulation._ensemble.expire(victim.number)
    victim.start()
    assert not victim.replicas  # those of its former process led what they led in another life
    world.run(world.now_us + SECOND_US // 5)
    replica = victim.replicas["metadata"]
    assert replica.state is not None
    assert victim.number in replica.state.in_sync
    assert not victim.is_ready
    failure = FlushFailed("the disk has failed")
    replica.journal.flusher.fail(failure)
    world.run(world.now_us + SECOND_US // 5)
    assert (victim.is_up, victim.refusal) == (False, failure)
    for each in nodes:
        each.host.kill()
