"""Whole simulations: the same from the same seed, sound as the node is, and able to see what is broken."""

import os
import subprocess
import sys

import pytest

from hutong.groups.share.delivery import machine
from hutong.groups.share.delivery.window import OffsetRun, ShareRecordState
from hutong.journal.clean.record_filter import RecordFilter
from hutong.testing.disks.simulated import SimFile
from hutong.testing.simulation.outcome import SimulationOutcome
from hutong.testing.simulation.plan.drawing import draw_plan
from hutong.testing.simulation.plan.faults import kinds_of
from hutong.testing.simulation.simulation import Simulation

MINUTES = 0.2
AVAILABLE = ShareRecordState.AVAILABLE


def outcome_of(seed: int, kinds: str = "all") -> SimulationOutcome:
    return Simulation(draw_plan(seed, MINUTES, kinds_of(kinds))).run()


@pytest.mark.parametrize("seed", range(1, 11))
def test_no_promise_is_broken(seed: int) -> None:
    assert outcome_of(seed).errors == ()


def test_another_seed_is_another_history() -> None:
    assert outcome_of(6).trace_hash != outcome_of(7).trace_hash


def test_a_seed_has_one_trace_whatever_the_hashes_of_strings_are() -> None:
    program = (
        "from tests.unit.testing.simulation.test_simulation import outcome_of; print(outcome_of(6).trace_hash,"
        " outcome_of(9).trace_hash)"
    )
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


def test_a_disk_that_flushes_nothing_is_found_by_a_loss_of_power(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimFile, "flush", lambda _self: None)
    assert any(outcome_of(seed, "power").errors for seed in range(1, 31))


def test_a_list_of_faults_names_families_and_kinds() -> None:
    assert kinds_of("none") == ()
    assert kinds_of("clock,kill") == ("clock_jump", "kill")
    assert set(kinds_of("disk")) < set(kinds_of("all"))
    with pytest.raises(ValueError, match="there is no fault rain"):
        kinds_of("rain")


def test_share_states_that_a_kill_forgets_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_restored", lambda run, rules: OffsetRun(run.first, run.last, AVAILABLE))
    assert any(
        "both get it for delivery 1" in error for seed in range(1, 31) for error in outcome_of(seed, "kill").errors
    )


def test_tombstones_that_do_not_stay_for_their_time_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordFilter, "_is_over", lambda *_: True)
    assert any("is lost" in error for seed in range(1, 31) for error in outcome_of(seed, "none").errors)
