"""Traces for people: a table of times, actors and sentences, and the plan above it."""

from collections.abc import Iterable, Iterator, Sequence

from hutong.testing.simulation.plan.plan import SimulationPlan
from hutong.testing.simulation.simulation import SimulationOutcome

Line = tuple[int, str, str]


def plan_lines(plan: SimulationPlan) -> Iterator[str]:
    """The plan in a few lines: time, settings that matter, clients, faults."""
    yield f"seed {plan.seed}, {plan.lasts_us / 1e6:.3f} virtual seconds with faults"
    yield "settings  " + "  ".join(f"{name}={value}" for name, value in plan.node.settings)
    yield "journals  " + "  ".join(f"{name}={value}" for name, value in plan.node.journal)
    for topic in plan.topics:
        yield f"topic     {topic}"
    for group in plan.share_groups:
        yield f"group     {group}"
    for client in plan.clients:
        yield f"client    {client}"
    for fault in plan.faults:
        yield f"fault     {fault}"


def trace_lines(lines: Sequence[Line], count: int) -> Iterator[str]:
    """The last `count` lines, each with seconds and the actor in columns of their own."""
    shown = lines[-count:]
    width = max((len(who) for _, who, _ in shown), default=0)
    if len(shown) < len(lines):
        yield f"({len(lines) - len(shown)} earlier lines are left out)"
    for at_us, who, what in shown:
        yield f"{at_us / 1e6:12.6f}  {who:<{width}}  {what}"


def outcome_lines(outcome: SimulationOutcome, errors_max: int = 10) -> Iterator[str]:
    """The promises that were broken."""
    for error in outcome.errors[:errors_max]:
        yield from _indented(error.splitlines())
    if len(outcome.errors) > errors_max:
        yield f"  and {len(outcome.errors) - errors_max} more"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"  {line}" if number else f"- {line}"
