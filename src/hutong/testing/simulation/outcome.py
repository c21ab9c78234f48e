"""The result of a simulation."""

from dataclasses import dataclass
from typing import TypeAlias

from hutong.testing.simulation.buses.plan import BusPlan
from hutong.testing.simulation.plan.plan import SimulationPlan

AnyPlan: TypeAlias = SimulationPlan | BusPlan


@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    """The result of a simulation: `errors` is empty where every promise was kept."""

    plan: AnyPlan
    errors: tuple[str, ...]
    trace_hash: str
    virtual_us: int
    happenings: int
    lines: list[tuple[int, str, str]]
