"""Traces for people: a table of times, actors and sentences, and the plan above it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from hutong.testing.simulation.buses.plan import BusPlan
from hutong.testing.simulation.outcome import AnyPlan, SimulationOutcome

Line = tuple[int, str, str]
_NUMBER: Final = re.compile(r"\d+")
_WORD_WITH_NUMBER: Final = re.compile(r"(\S*\d\S*)")
_RUN_MIN: Final = 3
_NAME: Final = re.compile(r"b'[^']*'|[\w.]+(?:-[\w.]+)*-\d+(?:/\d+)?")
"""Values, partitions, clients, groups, calls."""
NO_ANSWER: Final = "has no answer to"
_BACKGROUND: Final = ("fault", "log")


def plan_lines(plan: AnyPlan) -> Iterator[str]:
    """The plan in a few lines: time, settings that matter, clients, faults."""
    if isinstance(plan, BusPlan):
        yield from plan.lines()
        return
    yield f"seed {plan.seed}, {plan.lasts_us / 1e6:.3f} virtual seconds with faults"
    yield "settings  " + "  ".join(f"{name}={value}" for name, value in plan.node.settings)
    yield "journals  " + "  ".join(f"{name}={value}" for name, value in plan.node.journal)
    yield f"machine   drift_ppm={plan.node.drift_ppm}  flush_us={plan.node.flush_us}"
    yield f"state     garbage={plan.node.state_garbage_bytes}  slice={plan.node.state_slice_bytes}"
    for number, machine in enumerate(plan.others, 2):
        yield f"node-{number}    drift_ppm={machine.drift_ppm}  flush_us={machine.flush_us}"
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


def concerning(sentence: str, lines: Sequence[Line]) -> list[Line]:
    """The lines that name all things that the sentence names, and those of faults, nodes and their logs.

    Where no line does, those that name one of them; where it names clients alone, what these did.
    """
    names = set(_NAME.findall(sentence))
    actors = {who for _, who, _ in lines}
    mentions = [re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])") for name in sorted(names - actors)]
    doers = set() if mentions else names & actors
    named = {what: sum(bool(each.search(what)) for each in mentions) for _, _, what in lines}
    wanted = len(mentions) if len(mentions) in named.values() else 1
    involved = {who for _, who, what in lines if mentions and named[what] >= wanted}

    def is_about(who: str, what: str) -> bool:
        if who in _BACKGROUND or "#" in who or who in doers:
            return True
        # Lost connections explain why the same thing happens twice.
        return (bool(mentions) and named[what] >= wanted) or (who in involved and what.startswith(NO_ANSWER))

    return [(at_us, who, what) for at_us, who, what in lines if is_about(who, what)]


def shortened(lines: Iterable[Line]) -> Iterator[Line]:
    """The same lines with runs of alike ones as one: `reads b'a/1' .. b'a/9' from orders-0 at 4 .. 12`."""
    for _, group in groupby(lines, lambda line: (line[1], _NUMBER.sub("#", line[2]))):
        run = list(group)
        if len(run) < _RUN_MIN:
            yield from run
            continue
        at_us, who, first = run[0]
        last = run[-1][2]
        ranges = zip(_WORD_WITH_NUMBER.split(first), _WORD_WITH_NUMBER.split(last), strict=True)
        joined = "".join(one if one == other else f"{one} .. {other}" for one, other in ranges)
        yield at_us, who, f"{joined} ({len(run)} times)"


def outcome_lines(outcome: SimulationOutcome, errors_max: int = 10) -> Iterator[str]:
    """The promises that were broken."""
    for error in outcome.errors[:errors_max]:
        yield from _indented(error.splitlines())
    if len(outcome.errors) > errors_max:
        yield f"  and {len(outcome.errors) - errors_max} more"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"  {line}" if number else f"- {line}"
