"""A smaller plan that still fails: without the faults, clients and share groups that the failure does not need.

Strategy: delta debugging (Zeller and Hildebrandt, IEEE TSE 28(2), 2002), simplified: take away halves, then quarters,
down to single parts, as long as a promise of the same kind is broken. Then the time is cut behind the last fault.

Every step is a whole simulation from the same seed, so the result is the same for everybody.
"""

import dataclasses
import re
from collections.abc import Callable
from typing import Any, Final

from hutong.testing.simulation.outcome import AnyPlan, SimulationOutcome
from hutong.testing.simulation.plan.faults import PlannedFault

RUNS_MAX: Final = 200
_MARGIN_US: Final = 2_000_000  # after the last fault
_LASTS_US_MIN: Final = 100_000
_PARTICULARS: Final = re.compile(r"b'[^']*'|\b[\w.]+-\d+\b|\d+")

Simulate = Callable[[AnyPlan], SimulationOutcome]
_PARTS: Final = ("faults", "clients", "share_groups")
"""The parts that a plan may go without; one of buses has no share groups."""


def kind_of(error: str) -> str:
    """The sentence without its values, names and numbers: two failures of one kind have the same."""
    return _PARTICULARS.sub("...", error.splitlines()[0])


class Minimiser:
    """Makes one failing plan smaller. `runs` counts simulations."""

    def __init__(self, simulate: Simulate, runs_max: int = RUNS_MAX) -> None:
        self.runs = 0
        self._simulate = simulate
        self._runs_max = runs_max
        self._kind = ""

    def minimise(self, failed: SimulationOutcome) -> SimulationOutcome:
        """The outcome of the smallest plan that was found; `failed` itself, if no smaller one fails alike."""
        self._kind = kind_of(failed.errors[0])
        best, before = failed, None
        # Without some client a fault may no longer be needed, and the other way round.
        while before != best.plan:
            before = best.plan
            for field in _PARTS:
                if hasattr(best.plan, field):
                    best = self._without(best, field)
            best = self._shorter(best)
            best = self._with_short_faults(best)
        return best

    def _without(self, best: SimulationOutcome, field: str) -> SimulationOutcome:
        """Take away runs of parts, large ones first."""
        size = max(1, len(getattr(best.plan, field)) // 2)
        while True:
            start = 0
            while start < len(parts := getattr(best.plan, field)):
                changed: dict[str, Any] = {field: parts[:start] + parts[start + size :]}
                smaller = self._failing(dataclasses.replace(best.plan, **changed))
                if smaller is None:
                    start += size
                else:
                    best = smaller
            if size == 1:
                return best
            size //= 2

    def _shorter(self, best: SimulationOutcome) -> SimulationOutcome:
        last_us = max((fault.at_us for fault in best.plan.faults), default=0)
        for lasts_us in (last_us + _MARGIN_US, best.plan.lasts_us // 2):
            if _LASTS_US_MIN <= lasts_us < best.plan.lasts_us:
                best = self._failing(dataclasses.replace(best.plan, lasts_us=lasts_us)) or best
        return best

    def _with_short_faults(self, best: SimulationOutcome) -> SimulationOutcome:
        """A fault that lasts a millisecond is easier to follow than one of many seconds."""
        for number in range(len(best.plan.faults)):
            faults: list[PlannedFault] = [*best.plan.faults]
            if faults[number].lasts_us > 1_000:
                faults[number] = dataclasses.replace(faults[number], lasts_us=1_000)
                best = self._failing(dataclasses.replace(best.plan, faults=tuple(faults))) or best
        return best

    def _failing(self, plan: AnyPlan) -> SimulationOutcome | None:
        """The outcome, if it breaks a promise of the same kind and there are runs left."""
        if self.runs >= self._runs_max:
            return None
        self.runs += 1
        outcome = self._simulate(plan)
        return outcome if any(kind_of(error) == self._kind for error in outcome.errors) else None
