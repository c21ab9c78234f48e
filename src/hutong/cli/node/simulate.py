"""The command `hutong simulate`: whole nodes in virtual time, from a seed, until a promise is broken.

Strategy: seeds run in processes of their own, in order. The first that fails is run again for its trace, made smaller,
and shown with the command that replays it.

Knows nothing of how a node is simulated: `hutong.testing.simulation` does.
"""

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hutong.cli.options import AsJson
from hutong.cli.output import print_json, remark
from hutong.foundation.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hutong.testing.simulation.outcome import AnyPlan, SimulationOutcome
    from hutong.testing.simulation.runner.seeds import SeedOptions, SeedResult

SEED_MAX: Final = (1 << 63) - 1
SEEDS_MAX: Final = 10_000_000
MINUTES: Final = 1.0
MINUTES_OF_BUSES: Final = 0.1
MINUTES_MAX: Final = 60.0
JOBS_MAX: Final = 256
NODES_MAX: Final = 9
LINES_MAX: Final = 200_000
LINES_OF_A_FAILURE: Final = 60
_PROGRESS_SECONDS: Final = 1.0


def simulate(
    seeds: Annotated[str, typer.Option("--seeds", metavar="A..B", help="The seeds to try, in this order.")] = "1..100",
    seed: Annotated[int | None, typer.Option("--seed", min=0, max=SEED_MAX, help="One seed alone.")] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="A plan in a file, in the place of a seed's.")
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", min=1, max=NODES_MAX, help="Nodes in each simulation: 1, or a drawn number of buses."),
    ] = None,
    is_of_buses: Annotated[bool, typer.Option("--bus", help="Clusters of event buses, in the place of nodes.")] = False,
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="Virtual time with faults, by default 1, with --bus 0.1.")
    ] = None,
    faults: Annotated[
        str, typer.Option("--faults", metavar="LIST", help="Kinds or families of faults, all or none.")
    ] = "all",
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=JOBS_MAX, help="Processes.")] = os.cpu_count() or 1,
    trace: Annotated[bool, typer.Option("--trace", help="Print what every node and client did.")] = False,
    lines: Annotated[
        int, typer.Option("--lines", min=1, max=LINES_MAX, help="Lines of the trace to print, from its end.")
    ] = LINES_MAX,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Do not stop at the first failure.")] = False,
    minimise: Annotated[bool, typer.Option(help="Look for a smaller plan that fails as well.")] = True,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Where the smallest failing plan is written.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Run whole nodes in virtual time with faults and clients drawn from a seed, and check every promise."""
    from hutong.testing.simulation.runner.plan_files import read_plan
    from hutong.testing.simulation.runner.seeds import SeedOptions

    if is_of_buses and (plan is not None or save is not None or nodes == 1):
        raise UsageError("--bus goes with no plan in a file, and its clusters have two nodes at least.")
    options = SeedOptions(_checked_minutes(minutes, is_of_buses=is_of_buses), _kinds(faults), nodes, is_of_buses)
    if plan is not None and seed is not None:
        raise UsageError("--plan and --seed name one simulation each: leave one of them out.")
    if plan is not None:
        return _replay(read_plan(plan), lines if trace else 0, f"hutong simulate --plan {plan}")
    if trace:
        if seed is None:
            raise UsageError("--trace shows one simulation: name it with --seed or --plan.")
        return _replay(options.plan(seed), lines, _command(seed, options, faults))
    tried = range(seed, seed + 1) if seed is not None else _range(seeds)
    failed = _sweep(tried, options, min(jobs, len(tried)), keep_going=keep_going, as_json=as_json)
    for number, result in enumerate(failed):
        # Of many failures the first is looked at closely; the others have their seeds.
        if number == 0:
            _explain(result, options, _command(result.seed, options, faults), save, minimise=minimise)
        else:
            remark(f"seed {result.seed} fails: {result.errors[0].splitlines()[0]}")
    return ExitCode.SOFTWARE if failed else 0


def _sweep(seeds: range, options: "SeedOptions", jobs: int, *, keep_going: bool, as_json: bool) -> "list[SeedResult]":
    """Run the seeds; returns those that failed."""
    from hutong.testing.simulation.runner.seeds import run_seeds

    failed = []
    begun_s = shown_s = time.monotonic()
    virtual_us = done = 0
    for result in run_seeds(seeds, options, jobs):
        done += 1
        virtual_us += result.virtual_us
        if as_json:
            print_json({"seed": result.seed, "errors": result.errors, "trace": result.trace_hash})
        now_s = time.monotonic()
        if now_s - shown_s >= _PROGRESS_SECONDS and sys.stderr.isatty():
            shown_s = now_s
            sys.stderr.write(f"\r{_rates(done, len(seeds), virtual_us, now_s - begun_s)}\x1b[K")
        if result.errors:
            failed.append(result)
            if not keep_going:
                break
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    remark(f"{_rates(done, len(seeds), virtual_us, time.monotonic() - begun_s)}, {len(failed)} failed")
    return failed


def _explain(result: "SeedResult", options: "SeedOptions", command: str, save: Path | None, *, minimise: bool) -> None:
    """Show the promises that were broken, the smallest plan that breaks one, and the end of its trace."""
    from hutong.testing.simulation.plan.plan import SimulationPlan
    from hutong.testing.simulation.runner.minimise import Minimiser
    from hutong.testing.simulation.runner.plan_files import write_plan
    from hutong.testing.simulation.runner.seeds import simulated
    from hutong.testing.simulation.runner.trace import concerning, outcome_lines, shortened

    outcome = simulated(options.plan(result.seed), keeps_trace=True)
    print(f"seed {result.seed} breaks promises:")
    print("\n".join(outcome_lines(outcome)))
    if minimise:
        minimiser = Minimiser(simulated)
        smallest = minimiser.minimise(outcome)
        remark(f"made smaller in {minimiser.runs} runs")
        outcome = simulated(smallest.plan, keeps_trace=True)
        print("\nA smaller plan breaks a promise of the same kind:")
    if save is not None and isinstance(outcome.plan, SimulationPlan):
        write_plan(save, outcome.plan)
        command = f"hutong simulate --plan {save}"
    elif minimise and not options.is_of_buses:
        remark("--save FILE keeps the smaller plan, so that it can be replayed")
    # Of thousands of lines those that name what the first promise names tell most of the story.
    told = concerning(outcome.errors[0].splitlines()[0], outcome.lines) if outcome.errors else outcome.lines
    _show(outcome, list(shortened(told)), LINES_OF_A_FAILURE)
    print(f"\nReplay {'it' if save is not None or not minimise else 'the whole plan'}: {command} --trace")


def _replay(plan: "AnyPlan", lines: int, command: str) -> int:
    from hutong.testing.simulation.runner.seeds import simulated

    outcome = simulated(plan, keeps_trace=True)
    _show(outcome, outcome.lines, lines)
    remark(f"{command}: trace {outcome.trace_hash}, {len(outcome.errors)} promises broken")
    return ExitCode.SOFTWARE if outcome.errors else 0


def _show(outcome: "SimulationOutcome", trace: "Sequence[tuple[int, str, str]]", lines: int) -> None:
    """Print the plan, the last `lines` of the trace, and the promises that were broken."""
    from hutong.testing.simulation.runner.trace import outcome_lines, plan_lines, trace_lines

    print()
    print("\n".join(plan_lines(outcome.plan)))
    if lines:
        print()
        print("\n".join(trace_lines(trace, lines)))
    if outcome.errors:
        print("\nBroken promises:")
        print("\n".join(outcome_lines(outcome)))


def _rates(done: int, count: int, virtual_us: int, took_s: float) -> str:
    took_s = max(took_s, 0.001)
    return (
        f"{done} of {count} seeds, {done / took_s:.1f} seeds/s, "
        f"{virtual_us / 1e6 / took_s:.0f} virtual seconds in a second"
    )


def _command(seed: int, options: "SeedOptions", faults: str) -> str:
    kind = " --bus" if options.is_of_buses else ""
    nodes = "" if options.nodes is None else f" --nodes {options.nodes}"
    return f"hutong simulate{kind} --seed {seed}{nodes} --minutes {options.minutes:g} --faults {faults}"


def _kinds(faults: str) -> tuple[str, ...]:
    from hutong.testing.simulation.plan.faults import FAMILIES, kinds_of

    try:
        return kinds_of(faults)
    except ValueError as error:
        names = ", ".join(f"{family} ({', '.join(kinds)})" for family, kinds in FAMILIES.items())
        raise UsageError(f"--faults: {error}; there are {names}, all and none.") from None


def _checked_minutes(given: float | None, *, is_of_buses: bool) -> float:
    minutes = given if given is not None else MINUTES_OF_BUSES if is_of_buses else MINUTES
    if not 0 < minutes <= MINUTES_MAX:  # not so for NaN either
        raise UsageError(f"--minutes is more than 0 and at most {MINUTES_MAX:g}.")
    return minutes


def _range(text: str) -> range:
    """`5` or `1..1000`, both ends included. Raises UsageError."""
    first, dots, last = text.partition("..")
    # `isdecimal` is true for digits of other scripts, and int() takes those, too.
    if not (first.isascii() and first.isdecimal()) or (dots and not (last.isascii() and last.isdecimal())):
        raise UsageError(f"--seeds {text!r} is no range of seeds; write 1..1000.")
    if max(len(first), len(last)) > len(str(SEED_MAX)):
        raise UsageError(f"--seeds has a seed greater than {SEED_MAX}.")
    begin, end = int(first), int(last or first)
    if not begin <= end <= SEED_MAX or end - begin >= SEEDS_MAX:
        raise UsageError(f"--seeds {text} has no seed, one greater than {SEED_MAX}, or more than {SEEDS_MAX} of them.")
    return range(begin, end + 1)
