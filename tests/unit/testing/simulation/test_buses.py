"""Whole simulations of clusters of buses: they keep their promises, repeat, and notice rules that are left out."""

import os
import subprocess
import sys

import pytest
from tests.fault import bus_ablations
from tests.fault.bus_ablations import BusRule

from hutong.testing.simulation.buses.checks import check_knowledge
from hutong.testing.simulation.buses.plan import BUS_FAULTS, SESSION_MS, draw_bus_plan
from hutong.testing.simulation.buses.simulation import BusSimulation
from hutong.testing.simulation.outcome import SimulationOutcome
from hutong.testing.simulation.runner.seeds import SeedOptions, run_seeds
from hutong.testing.simulation.runner.trace import plan_lines

MINUTES = 0.1


def outcome_of(seed: int, nodes: int | None = None) -> SimulationOutcome:
    return BusSimulation(draw_bus_plan(seed, MINUTES, BUS_FAULTS, nodes), keeps_trace=True).run()


# In the first ones messages came out of order or twice, before the newest connection of a node counted alone. In the
# last ones a node had gone before a connection to it was begun, and a message was sent to a node that had been killed.
@pytest.mark.parametrize("seed", [11, 23, 24, 31, 32, 33, 35, 36, 40, *range(1, 6), 3030, 4701, 4905])
def test_a_cluster_of_buses_breaks_no_promise(seed: int) -> None:
    outcome = outcome_of(seed)
    assert outcome.errors == ()
    assert outcome.happenings > 50


def test_a_killed_node_s_verticle_runs_elsewhere_after_its_session() -> None:
    outcome = outcome_of(8)
    began = [(at_us, who) for at_us, who, text in outcome.lines if text == "runs verticle-0"]
    died_us = next(at_us for at_us, who, text in outcome.lines if (who, text) == (began[0][1], "is killed"))
    assert outcome.errors == ()
    assert began[1][0] >= died_us + SESSION_MS * 1_000
    assert began[1][1] != began[0][1]


def test_two_nodes_are_a_cluster() -> None:
    outcome = outcome_of(7, 2)
    assert outcome.errors == ()
    assert len({who.partition("#")[0] for _, who, _ in outcome.lines if who.startswith("node-")}) == 2


def test_a_seed_of_buses_has_one_trace_whatever_the_hashes_of_strings_are() -> None:
    program = "from tests.unit.testing.simulation.test_buses import outcome_of; print(outcome_of(33).trace_hash)"
    hashes = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in (1, 2)
    }
    assert len(hashes) == 1


@pytest.mark.parametrize("rule", bus_ablations.RULES, ids=str)
def test_a_rule_that_is_left_out_is_missed(rule: BusRule, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bus_ablations.noticed(rule, rule.seed) is None
    rule.leave_out(monkeypatch)
    assert bus_ablations.noticed(rule, rule.seed) is not None


def test_a_plan_without_faults_has_none() -> None:
    plan = draw_bus_plan(3, MINUTES, ())
    assert plan.faults == ()
    assert not any(line.startswith("fault") for line in plan_lines(plan))


def test_seeds_of_buses_are_run_as_those_of_nodes() -> None:
    options = SeedOptions(MINUTES, BUS_FAULTS, None, is_of_buses=True)
    assert [result.errors for result in run_seeds(range(1, 4), options, 1)] == [()] * 3


def test_nodes_that_know_other_listeners_than_there_are_are_named() -> None:
    known = {"a": {"x": {"b": 2}}, "b": {"x": {"a": 1, "gone": 1}}}
    offered = {"a": {"x": 1}, "b": {"x": 1, "y": 1}}
    assert [sentence.partition(" knows")[0] for sentence in check_knowledge(known, offered)] == ["a", "a", "b"]
