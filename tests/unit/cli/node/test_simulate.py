"""`hutong simulate`: a sweep, a failure with its replay, a trace, and what is refused."""

from pathlib import Path

import pytest

from hutong.cli import main
from hutong.foundation.errors import ExitCode
from hutong.testing.simulation import simulation
from hutong.testing.simulation.buses import simulation as bus_simulation

SWEEP = ["simulate", "--minutes", "0.1", "--jobs", "1"]


def break_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the checker of logs find fault with every history."""
    monkeypatch.setattr(simulation, "CHECKS", [lambda _history: ["b'a/1' is lost"]])


def test_a_sweep_says_how_many_seeds_it_ran(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*SWEEP, "--seeds", "6..7"]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("2 of 2 seeds, ")
    assert shown.err.endswith(", 0 failed\n")


def test_a_trace_is_printed_for_one_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*SWEEP, "--seed", "6", "--trace"]) == 0
    shown = capsys.readouterr().out
    assert "seed 6, 6.000 virtual seconds" in shown
    assert "node-1#1" in shown


def test_each_seed_is_a_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*SWEEP, "--seeds", "7", "--json"]) == 0
    assert capsys.readouterr().out.startswith('{"seed": 7, "errors": [], "trace": "')


def test_a_failure_is_explained_and_can_be_replayed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    break_promises(monkeypatch)
    plan = tmp_path / "plan.json"
    failing = [*SWEEP, "--seeds", "6..9", "--save", str(plan)]
    assert main.run(failing) == ExitCode.SOFTWARE
    shown = capsys.readouterr()
    assert "breaks promises:" in shown.out
    assert f"Replay it: hutong simulate --plan {plan} --trace" in shown.out
    assert main.run(["simulate", "--plan", str(plan)]) == ExitCode.SOFTWARE
    assert "Broken promises:" in capsys.readouterr().out
    monkeypatch.undo()
    assert main.run(["simulate", "--plan", str(plan)]) == 0


def test_all_failures_are_listed_with_keep_going(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_promises(monkeypatch)
    options = ["--seeds", "1..3", "--keep-going", "--no-minimise"]
    assert main.run([*SWEEP, *options]) == ExitCode.SOFTWARE
    assert "3 of 3 seeds" in (shown := capsys.readouterr().err)
    assert shown.count(" fails: ") == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--seeds", "5..1"], "--seeds 5..1 has no seed"),
        (["--seeds", "x..y"], "write 1..1000"),
        (["--seeds", "²"], "write 1..1000"),
        (["--seeds", "9" * 5_000], "a seed greater than"),
        (["--seeds", "0..99999999999"], "more than 10000000 of them"),
        (["--minutes", "0"], "--minutes is more than 0"),
        (["--minutes", "nan"], "--minutes is more than 0"),
        (["--faults", "rain"], "there is no fault rain; there are node (kill,"),
        (["--trace"], "name it with --seed or --plan"),
        (["--plan", "/no/such/plan"], "Cannot read the plan"),
        (["--plan", "/no/such/plan", "--seed", "1"], "leave one of them out"),
    ],
)
def test_a_mistake_is_one_sentence(options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*SWEEP, *options]) in (ExitCode.USAGE, ExitCode.NOINPUT)
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert shown.out == ""


def test_buses_are_simulated_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["simulate", "--bus", "--jobs", "1", "--seeds", "1..2"]) == 0
    assert capsys.readouterr().err.startswith("2 of 2 seeds, ")
    assert main.run(["simulate", "--bus", "--seed", "2", "--trace"]) == 0
    shown = capsys.readouterr()
    assert "seed 2, 6.000 virtual seconds" in shown.out
    assert "node-1#1" in shown.out
    assert "hutong simulate --bus --seed 2 --minutes 0.1 --faults all: trace " in shown.err


def test_a_failure_of_buses_is_made_smaller(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_simulation, "check_history", lambda *_: ["sender-1.1-7 has not ended"])
    assert main.run(["simulate", "--bus", "--jobs", "1", "--seeds", "1", "--faults", "kill"]) == ExitCode.SOFTWARE
    shown = capsys.readouterr().out
    assert "A smaller plan breaks a promise of the same kind:" in shown
    assert "Replay the whole plan: hutong simulate --bus --seed 1 --minutes 0.1 --faults kill --trace" in shown


@pytest.mark.parametrize("more", [["--nodes", "1"], ["--plan", "plan.json"], ["--save", "plan.json"]])
def test_buses_have_no_plans_in_files_and_are_not_alone(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["simulate", "--bus", *more]) == ExitCode.USAGE
    assert "--bus" in capsys.readouterr().err
