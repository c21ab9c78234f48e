"""Many simulations: in order from several processes, plans in files, smaller plans, traces."""

import dataclasses
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from hutong.foundation.errors import UsageError
from hutong.testing.simulation import simulation
from hutong.testing.simulation.outcome import AnyPlan, SimulationOutcome
from hutong.testing.simulation.plan.drawing import draw_plan
from hutong.testing.simulation.plan.faults import PlannedFault, kinds_of
from hutong.testing.simulation.runner import seeds
from hutong.testing.simulation.runner.minimise import Minimiser, kind_of
from hutong.testing.simulation.runner.plan_files import FILE_BYTES_MAX, encoded_plan, read_plan, write_plan
from hutong.testing.simulation.runner.seeds import SeedOptions, run_seeds, simulated
from hutong.testing.simulation.runner.trace import concerning, outcome_lines, plan_lines, shortened, trace_lines

OPTIONS = SeedOptions(0.1, kinds_of("all"))


def test_seeds_come_in_their_order_and_alike_from_any_number_of_processes() -> None:
    alone = list(run_seeds(range(3, 6), OPTIONS, 1))
    assert [result.seed for result in alone] == list(range(3, 6))
    assert list(run_seeds(range(3, 6), OPTIONS, 2)) == alone


def wait_for_ever() -> None:
    seeds._end_with_parent()
    threading.Event().wait()


def test_a_worker_ends_with_the_process_that_started_it() -> None:
    program = (
        "import multiprocessing, os, signal; from tests.unit.testing.simulation.test_runner import wait_for_ever\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.get_context('spawn').Process(target=wait_for_ever).start()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # The worker has the same standard output, which ends only when it does.
    killed = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_survives_a_file(seed: int, tmp_path: Path) -> None:
    plan = draw_plan(seed, 0.5, kinds_of("all"))
    write_plan(tmp_path / "plan.json", plan)
    assert read_plan(tmp_path / "plan.json") == plan


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        json.dumps({**encoded_plan(draw_plan(5, 0.5, ())), "seed": True}).encode(),
        json.dumps({**encoded_plan(draw_plan(5, 0.5, ())), "faults": [[1, 2, 3]]}).encode(),
        json.dumps({**encoded_plan(draw_plan(5, 0.5, ())), "clients": {}}).encode(),
        b" " * (FILE_BYTES_MAX + 1),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "plan.json").write_bytes(content)
    with pytest.raises(UsageError, match="plan"):
        read_plan(tmp_path / "plan.json")


def edited(**changed: Any) -> dict[str, Any]:
    """A sound plan as its file has it, with some fields changed."""
    return {**encoded_plan(draw_plan(6, 0.5, kinds_of("all"))), **changed}


FAULT = {"at_us": 0, "kind": "kill", "lasts_us": 1, "number": 1}
CLIENT = {"name": "r", "pause_ms": 0, "topic": "orders"}
READER = {**CLIENT, "kind": "reader", "partition": 0, "is_committed": True}
PRODUCER = {
    **CLIENT,
    "kind": "producer",
    "partition": 0,
    "acks": 1,
    "codec": 0,
    "is_uniform": False,
    "sends_ahead": False,
}
CALLER = {
    "kind": "caller",
    "name": "c",
    "pause_ms": 0,
    "calls_together": 1,
    "timeout_ms": 1,
    "retries": 0,
    "work_ms": 0,
    "padding_characters": 0,
    "first_pause_ms": 1,
    "first_patience_ms": 1,
    "stream_items": 0,
    "is_remembered": False,
}
BUS_MEMBER = {
    "kind": "bus member",
    "name": "b",
    "pause_ms": 0,
    "messages_together": 1,
    "timeout_ms": 1,
    "work_ms": 0,
    "padding_characters": 0,
    "is_listening": True,
    "not_reading_ms": 0,
}
NODE = {
    "settings": [],
    "journal": [],
    "drift_ppm": 0,
    "state_garbage_bytes": 0,
    "state_slice_bytes": 1,
    "service_instances": 1,
    "remembers_calls": False,
    "flush_us": 0,
}
TEMPORARY_USER = {
    "kind": "temporary user",
    "name": "u",
    "pause_ms": 0,
    "partitions": 1,
    "batches_together": 1,
    "padding_bytes": 0,
}
TELLER = {
    **CLIENT,
    "kind": "transactional producer",
    "partitions": 1,
    "transactional_id": "a",
    "timeout_ms": 1_000,
    "transaction_version": 2,
}


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (edited(lasts_us=10**15), "lasts_us is not from 1"),
        (edited(lasts_us=-5), "lasts_us is not from 1"),
        (edited(faults=[{**FAULT, "kind": "lions"}]), "there is no fault lions"),
        (edited(faults=[{**FAULT, "at_us": -1}]), "the time of a fault kill"),
        (edited(faults=[FAULT] * 10_001), "plan.faults has more than 10000"),
        (edited(clients=[{**READER, "kind": "lion"}]), "clients.0. is no client of the kinds reader"),
        (edited(clients=[{**READER, "kind": []}]), "clients.0. is no client of the kinds reader"),
        (edited(clients=[{**READER, "kind": "classic member"}]), "clients.0. does not have the fields name, "),
        (edited(clients=[{**READER, "is_committed": 1}]), "is_committed is not of the type bool"),
        (edited(clients=[{**READER, "topic": "none"}]), "a topic that the plan does not have"),
        (edited(clients=[{**READER, "partition": -1}]), "a partition that its topic does not have"),
        (edited(clients=[{**READER, "pause_ms": -1}]), "pause of the client r"),
        (edited(clients=[{**PRODUCER, "codec": 9}]), "9 is not a valid Compression"),
        (edited(clients=[{**TELLER, "partitions": 99}]), "partitions that its topic does not have"),
        (edited(clients=[{**TELLER, "kind": "keyed teller", "keys": 0}]), "keys of the client"),
        (edited(clients=[{**TEMPORARY_USER, "partitions": 101}]), "partitions of the client u is not from 1 to 100"),
        (edited(clients=[{**CLIENT, "kind": "share member", "group": "", "always_accepts": True}]), "a share group"),
        (edited(node={**NODE, "flush_us": -1}, clients=[]), "flush_us is not from 0"),
        (edited(node={**NODE, "service_instances": -1}, clients=[]), "service_instances is not from 0 to 100"),
        (edited(node={**NODE, "service_instances": 0}, clients=[CALLER]), "a service that the node does not have"),
        (edited(node=NODE, clients=[{**CALLER, "is_remembered": True}]), "a memory that the service does not have"),
        (edited(node=NODE, clients=[{**CALLER, "first_pause_ms": 0}]), "first_pause_ms of the client c is not from 1"),
        (edited(node=NODE, clients=[{**CALLER, "retries": 1_001}]), "retries of the client c is not from 0 to 1000"),
        (
            edited(node=NODE, clients=[{**BUS_MEMBER, "not_reading_ms": -1}]),
            "not_reading_ms of the client b is",
        ),
        (edited(clients=[READER, READER]), "two clients have one name"),
        (edited(topics=[{"name": "orders", "partitions": 10**9, "configs": []}], clients=[]), "1 to 100 partitions"),
    ],
)
def test_a_value_that_no_plan_has_is_refused(plan: dict[str, Any], problem: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(UsageError, match=problem):
        read_plan(tmp_path / "plan.json")


def test_a_missing_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_plan(tmp_path / "none.json")


def _failing(plan: AnyPlan) -> SimulationOutcome:
    """Fails while the plan has a power fault and the client `reader-0`."""
    is_broken = any(fault.kind == "power" for fault in plan.faults) and any(
        client.name == "reader-0" for client in plan.clients
    )
    errors = (f"t-{len(plan.faults)} at {plan.lasts_us} is lost",) if is_broken else ("something else",)
    return SimulationOutcome(plan, errors, "", 0, 0, [])


def test_a_plan_is_made_as_small_as_the_failure_allows() -> None:
    plans = (draw_plan(seed, 1, kinds_of("all")) for seed in range(1_000))
    plan = next(plan for plan in plans if _failing(plan).errors[0] != "something else" and len(plan.faults) > 5)
    minimiser = Minimiser(_failing)
    smallest = minimiser.minimise(_failing(plan)).plan
    assert [fault.kind for fault in smallest.faults] == ["power"]
    assert [client.name for client in smallest.clients] == ["reader-0"]
    assert smallest.faults[0].lasts_us <= 1_000
    assert smallest.lasts_us < plan.lasts_us
    assert minimiser.runs <= 200


def test_without_runs_the_plan_stays_as_it_is() -> None:
    outcome = next(
        outcome
        for outcome in (_failing(draw_plan(seed, 1, kinds_of("all"))) for seed in range(1_000))
        if outcome.errors[0] != "something else"
    )
    assert Minimiser(_failing, runs_max=0).minimise(outcome) is outcome


def test_a_real_failure_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "CHECKS", [lambda _history: ["b'a/1' was acknowledged in t-0 at 1 and is lost"]])
    failed = simulated(OPTIONS.plan(6))
    smallest = Minimiser(simulated, runs_max=20).minimise(failed)
    assert (smallest.plan.clients, smallest.plan.faults) == ((), ())
    assert smallest.errors == failed.errors


def test_a_kind_of_failure_has_no_names_and_numbers() -> None:
    first = kind_of("b'producer-0/17' was acknowledged in orders-0 at 16 and is lost")
    assert first == kind_of("b'producer-3/4' was acknowledged in orders-1 at 2016 and is lost")
    assert first != kind_of("b'producer-3/4' is twice in orders-1: at 1 and 2")


def test_a_trace_shows_the_plan_the_node_the_log_and_the_end() -> None:
    # The node's log has a line for each journal that a loss of power left open.
    fault = PlannedFault(2_000_000, "power", 1_000_000, 1)
    plan = dataclasses.replace(draw_plan(6, 0.2, ()), faults=(fault,))
    outcome = simulated(plan, keeps_trace=True)
    shown = list(trace_lines(outcome.lines, 100_000))
    assert any("node-1#1" in line and "is ready" in line for line in shown)
    assert any(" log " in line and "was not closed cleanly" in line for line in shown)
    assert next(iter(trace_lines(outcome.lines, 1))).endswith("earlier lines are left out)")
    assert any(line.startswith("fault ") for line in plan_lines(plan))


def test_runs_of_alike_lines_are_one() -> None:
    reads = [(number, "reader-0", f"reads b'p/{number}' from t-0 at {number - 1}") for number in range(1, 6)]
    told = list(shortened([(0, "fault", "kill"), *reads, (9, "reader-1", "reads b'p/1' from t-0 at 0")]))
    assert [what for _, _, what in told] == [
        "kill",
        "reads b'p/1' .. b'p/5' from t-0 at 0 .. 4 (5 times)",
        "reads b'p/1' from t-0 at 0",
    ]


def test_the_lines_that_a_broken_promise_is_about() -> None:
    lines = [
        (1, "node-1#1", "is ready"),
        (2, "producer-0", "hears that b'p/1' is stored in t-0 at 7"),
        (3, "producer-0", "hears that b'p/11' is stored in t-1 at 7"),
        (4, "fault", "power at node-1 for 0.001 s"),
        (5, "checker", "finds 3 records (all) in t-10 from 0 on"),
    ]
    assert [at for at, _, _ in concerning("b'p/1' was acknowledged in t-0 at 7 and is lost", lines)] == [1, 2, 4]
    # Of a client alone: all that it did.
    assert [at for at, _, _ in concerning("producer-0 has not finished 60 s after", lines)] == [1, 2, 3, 4]


def test_lines_concern_a_call_by_its_name() -> None:
    lines = [
        (1, "caller-0", "calls caller-0/7, 1 attempts at most, timeout 100 ms"),
        (2, "desk", "carries out caller-0/7 as node-1#1.3"),
        (3, "desk", "carries out caller-0/77 as node-1#1.4"),
        (4, "caller-0", "calls caller-0/8, 1 attempts at most, timeout 100 ms"),
    ]
    assert [at for at, _, _ in concerning("caller-0/7 was carried out 2 times", lines)] == [1, 2]


def test_no_fault_begins_in_the_quiet_time() -> None:
    plan = dataclasses.replace(draw_plan(6, 0.02, ()), faults=(PlannedFault(2_000_000, "kill", 1_000, 1),))
    assert not any("kill" in what for _, who, what in simulated(plan, keeps_trace=True).lines if who == "fault")


def test_a_client_s_errors_are_in_the_trace_and_not_in_its_hash() -> None:
    plan = dataclasses.replace(draw_plan(6, 0.1, ()), faults=(PlannedFault(2_000_000, "kill", 1_000_000, 1),))
    outcome = simulated(plan, keeps_trace=True)
    assert any("has no answer to" in what for _, _, what in outcome.lines)
    assert outcome.trace_hash == simulated(plan).trace_hash


def test_many_broken_promises_are_cut_short() -> None:
    outcome = SimulationOutcome(draw_plan(1, 1, ()), tuple("abc"), "", 0, 0, [])
    assert list(outcome_lines(outcome, errors_max=2)) == ["- a", "- b", "  and 1 more"]
