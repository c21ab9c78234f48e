"""Plans of moves: which units get which replicas, which partitions go along, and what is copied.

Strategy: a plan is made for the preview, and again for the change; both have a mark. Where the marks differ the cluster
has changed meanwhile, and the user looks again. So nothing happens that nobody has seen.

Knows no client.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hutong.console.nodes.moving.units import MoveUnit, Place, Replicas

MOVED_MAX: Final = 1_000
"""Units of one plan: a second one takes the rest."""
STEPS_SHOWN_MAX: Final = 200
REPLICAS_MAX: Final = 64
CONFLICT: Final = 40904
_ALONE: Final = "Only whole partition groups of a Hutong cluster move with a throttle. Leave it empty here."


@dataclass(frozen=True, slots=True)
class MoveStep:
    """A unit with its new replicas. `asked` leave it for a group of their own, where they are not all of a group.

    Each node of the move copies at most `bytes_per_second` until it is done; 0: as its settings allow.
    """

    unit: MoveUnit
    asked: tuple[Place, ...]
    target: Replicas
    size_bytes: int | None
    bytes_per_second: int = 0

    @property
    def splits(self) -> bool:
        return len(self.asked) < len(self.unit.members)

    @property
    def added(self) -> Replicas:
        return tuple(node for node in self.target if node not in self.unit.replicas)

    @property
    def is_pace(self) -> bool:
        """True where the move is under way, and gets another throttle alone."""
        return self.target == self.unit.target

    @property
    def copied_bytes(self) -> int | None:
        return None if self.size_bytes is None else self.size_bytes * len(self.added)

    def told(self) -> dict[str, Any]:
        return {
            **self.unit.told(),
            "moved": len(self.asked),
            "splits": self.splits,
            "before": self.unit.replicas,
            "target": self.target,
            "copied_bytes": self.copied_bytes,
            "bytes_per_second": self.bytes_per_second or None,
            "is_pace": self.is_pace,
        }


@dataclass(frozen=True, slots=True)
class MovePlan:
    """`asked` counts the partitions that were asked for; `staying` are the names of units that nobody can take."""

    steps: tuple[MoveStep, ...]
    asked: int
    staying: tuple[str, ...] = ()
    is_cut: bool = False

    @property
    def mark(self) -> str:
        seen = [
            (step.unit.name, step.asked, step.unit.replicas, step.target, step.bytes_per_second) for step in self.steps
        ]
        return sha256(msgspec.json.encode(seen)).hexdigest()[:32]

    @property
    def copied_bytes(self) -> int | None:
        """Of all steps; None where one of them does not know."""
        found = [step.copied_bytes for step in self.steps if step.added]
        return None if None in found else sum(each or 0 for each in found)

    def told(self) -> dict[str, Any]:
        moved = sum(len(step.asked) for step in self.steps)
        return {
            "mark": self.mark,
            "steps": [step.told() for step in self.steps[:STEPS_SHOWN_MAX]],
            "step_count": len(self.steps),
            "moved": moved,
            "along": max(0, moved - self.asked),
            "copied_bytes": self.copied_bytes,
            "staying": self.staying[:STEPS_SHOWN_MAX],
            "staying_count": len(self.staying),
            "truncated": len(self.steps) > STEPS_SHOWN_MAX,
            "is_cut": self.is_cut,
        }


def checked_replicas(replicas: Sequence[int], here: Collection[int]) -> Replicas:
    """The new replicas. Raises WebRefusal(400) for none, doubles, too many, and brokers that are not here."""
    if not 1 <= len(replicas) <= REPLICAS_MAX or len(set(replicas)) != len(replicas):
        raise WebRefusal(400, f"Name 1 to {REPLICAS_MAX} different brokers, the preferred leader first.", 40002)
    missing = [node for node in replicas if node not in here]
    if missing:
        raise WebRefusal(400, f"Broker {missing[0]} is not here. Choose of {', '.join(map(str, sorted(here)))}.", 40002)
    return tuple(replicas)


def plan_move(
    units: Sequence[MoveUnit],
    asked: Collection[Place],
    replicas: Replicas,
    sizes: Mapping[Place, int],
    *,
    together: bool,
    spreads: bool,
    bytes_per_second: int = 0,
) -> MovePlan:
    """Give the asked partitions these replicas, with `together` all that are in one group with them.

    The same move asked for again gets the new throttle. With `spreads` each unit has another one of the replicas as its
    preferred leader. Raises WebRefusal(409).
    """
    touched = [unit for unit in units if not set(unit.members).isdisjoint(asked)]
    if len(touched) > MOVED_MAX:
        raise WebRefusal(409, f"At most {MOVED_MAX} partitions move at a time. Choose single ones.", CONFLICT)
    found: list[MoveStep] = []
    for index, unit in enumerate(touched):
        turn = index % len(replicas) if spreads else 0
        wanted = tuple(place for place in unit.members if together or place in asked)
        step = _step(unit, wanted, (*replicas[turn:], *replicas[:turn]), sizes, bytes_per_second)
        if step is not None:
            found.append(step)
    return MovePlan(tuple(found), len(asked))


def _step(
    unit: MoveUnit, wanted: tuple[Place, ...], target: Replicas, sizes: Mapping[Place, int], bytes_per_second: int
) -> MoveStep | None:
    is_whole = len(wanted) == len(unit.members)
    if bytes_per_second and (unit.group is None or not is_whole):
        raise WebRefusal(409, _ALONE, CONFLICT)
    if unit.target is not None and (unit.group is None or not is_whole):
        raise WebRefusal(409, f"{unit.name} is on its way already. Wait, or take that move back first.", CONFLICT)
    if target == unit.target and bytes_per_second != unit.bytes_per_second:
        return MoveStep(unit, wanted, target, 0, bytes_per_second)
    if target == (unit.target or unit.replicas):
        return None
    # A partition group keeps its count of replicas: the cluster has one for all groups (cluster.replicas).
    if unit.group is not None and len(target) < len(unit.replicas):
        raise WebRefusal(409, f"The partition group {unit.name} keeps its {len(unit.replicas)} replicas.", CONFLICT)
    return MoveStep(unit, wanted, target, unit.size_bytes if is_whole else _sum(wanted, sizes), bytes_per_second)


def _sum(places: Collection[Place], sizes: Mapping[Place, int]) -> int | None:
    found = [sizes.get(place) for place in places]
    return None if None in found else sum(each or 0 for each in found)


def plan_drain(units: Sequence[MoveUnit], racks: Mapping[int, str | None], node: int) -> MovePlan:
    """Put another broker in the place of a node. `racks` are those of the brokers that may take replicas.

    A rack that the unit is not in comes first, then the broker with the fewest replicas.
    """
    load: Counter[int] = Counter()
    for unit in units:
        load.update(unit.target or unit.replicas)
    steps: list[MoveStep] = []
    staying: list[str] = []
    leaving = [unit for unit in units if node in unit.replicas and unit.target is None]
    for unit in leaving[:MOVED_MAX]:
        others = [each for each in unit.replicas if each != node]
        free = [each for each in racks if each != node and each not in others]
        if not free:
            staying.append(unit.name)
            continue
        used = {racks.get(each) for each in others} - {None}
        taker = min(free, key=lambda each: (racks[each] in used, load[each], each))
        load[taker] += 1
        target = tuple(taker if each == node else each for each in unit.replicas)
        steps.append(MoveStep(unit, unit.members, target, unit.size_bytes))
    return MovePlan(tuple(steps), _members(steps), tuple(staying), len(leaving) > MOVED_MAX)


def plan_leaders(units: Sequence[MoveUnit], here: Collection[int], node: int) -> MovePlan:
    """Let a node be the last choice of all that it should lead: nothing is copied. The others take turns."""
    leads: Counter[int] = Counter(unit.replicas[0] for unit in units if unit.replicas)
    steps: list[MoveStep] = []
    staying: list[str] = []
    leaving = [unit for unit in units if unit.replicas[:1] == (node,) and unit.target is None]
    for unit in leaving[:MOVED_MAX]:
        able = [each for each in unit.replicas[1:] if each in here]
        if not able:
            staying.append(unit.name)
            continue
        first = min(able, key=lambda each: (leads[each], each))
        leads[first] += 1
        rest = [each for each in unit.replicas[1:] if each != first]
        steps.append(MoveStep(unit, unit.members, (first, *rest, node), unit.size_bytes))
    return MovePlan(tuple(steps), _members(steps), tuple(staying), len(leaving) > MOVED_MAX)


def _members(steps: Sequence[MoveStep]) -> int:
    return sum(len(step.asked) for step in steps)
