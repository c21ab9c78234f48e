"""Planned faults: their kinds, the families of kinds, and when each begins and ends."""

from dataclasses import dataclass
from typing import Final

NODE_FAULTS: Final = ("kill", "power", "stop", "pause")
NETWORK_FAULTS: Final = ("cut", "cut_one_way", "slow_link", "reset")
DISK_FAULTS: Final = ("slow_flush", "failing_flush", "failing_write", "failing_read", "full_disk", "cold_cache")
CLOCK_FAULTS: Final = ("clock_jump",)
CLUSTER_FAULTS: Final = (
    "kill_several",
    "power_several",
    "stop_several",
    "pause_several",
    "isolate",
    "isolate_one_way",
    "split",
    "ring",
    "slow_peers",
    "cut_coordinator",
    "coordinator_outage",
    "lost_session",
    "lose_leader",
    "power_leader_last",
)
"""Of several nodes, of what is between them, and of the coordinator: only where there are several."""
AIMED_FAULTS: Final = (
    "lose_joined",
    "cut_joined",
    "lose_disk",
    "late_proposal",
    "deaf_leader",
    "late_leader",
    "lone_controller",
)
LATER_AIMED_FAULTS: Final = ("lose_alone",)
WIDE_AIMED_FAULTS: Final = ("late_set", "late_cut")
"""Each of these is a whole sequence of events that one rule of in-sync sets is there for; a plan has one kind alone.

The later ones have a random stream of their own, so plans with the others are what they were without them. The last
ones take `WIDE_NODES_MIN` nodes.
"""
WIDE_NODES_MIN: Final = 4
FAMILIES: Final = {
    "node": NODE_FAULTS,
    "network": NETWORK_FAULTS,
    "disk": DISK_FAULTS,
    "clock": CLOCK_FAULTS,
    "cluster": CLUSTER_FAULTS,
    "aimed": (*AIMED_FAULTS, *LATER_AIMED_FAULTS, *WIDE_AIMED_FAULTS),
}


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault and when it begins and ends. `number` picks its victim and its strength."""

    at_us: int
    kind: str
    lasts_us: int
    number: int

    def __str__(self) -> str:
        return f"{self.kind} at {self.at_us / 1e6:.3f} s for {self.lasts_us / 1e6:.3f} s ({self.number})"


def kinds_of(names: str) -> tuple[str, ...]:
    """The kinds that a list such as `disk,pause` names; `all` and `none` are lists, too. Raises ValueError."""
    kinds: list[str] = []
    for name in filter(None, names.split(",")):
        if name == "all":
            kinds += [kind for family in FAMILIES.values() for kind in family]
        elif name in FAMILIES:
            kinds += FAMILIES[name]
        elif any(name in family for family in FAMILIES.values()):
            kinds.append(name)
        elif name != "none":
            raise ValueError(f"there is no fault {name}")
    return tuple(dict.fromkeys(kinds))
