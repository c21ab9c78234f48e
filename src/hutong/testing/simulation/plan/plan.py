"""The plan of a simulation as a value, which can be shown, kept in a file, and made smaller."""

from dataclasses import dataclass
from typing import Final

from hutong.testing.simulation.plan.clients import PlannedClient
from hutong.testing.simulation.plan.faults import PlannedFault

COMPACT: Final = "compact"


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """A topic to create at the start."""

    name: str
    partitions: int
    configs: tuple[tuple[str, str], ...] = ()

    @property
    def is_compacted(self) -> bool:
        return ("cleanup.policy", COMPACT) in self.configs

    def __str__(self) -> str:
        configs = "".join(f", {name}={value}" for name, value in self.configs)
        return f"{self.name} with {self.partitions} partitions{configs}"


@dataclass(frozen=True, slots=True)
class PlannedShareGroup:
    """A share group, of which some clients are members."""

    name: str
    topic: str
    lock_ms: int
    delivery_limit: int

    def __str__(self) -> str:
        return f"{self.name} of {self.topic}: locks of {self.lock_ms} ms, at most {self.delivery_limit} deliveries"


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """Settings of all nodes, as `hutong config` names them, and what their machines are like."""

    settings: tuple[tuple[str, str], ...]
    journal: tuple[tuple[str, int], ...]  # bounds of journals, smaller than settings allow
    drift_ppm: int
    state_garbage_bytes: int  # in a state topic, before it is compacted
    state_slice_bytes: int  # of a snapshot of a state topic
    service_instances: int = 0  # of the service that callers call; 0 for a node without services
    remembers_calls: bool = False  # the service, in a topic of the node
    flush_us: int = 0  # that the disk takes for a flush, without faults


@dataclass(frozen=True, slots=True)
class PlannedMachine:
    """The machine of a node after the first, as far as it differs from the first one's."""

    drift_ppm: int
    flush_us: int
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """Everything that a simulation does not leave to chance while it runs."""

    seed: int
    lasts_us: int
    node: PlannedNode
    topics: tuple[PlannedTopic, ...]
    clients: tuple[PlannedClient, ...]
    faults: tuple[PlannedFault, ...]
    share_groups: tuple[PlannedShareGroup, ...] = ()
    others: tuple[PlannedMachine, ...] = ()  # than the first node's; with some of them it is a cluster

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return 1 + len(self.others)

    @property
    def machines(self) -> tuple[PlannedMachine, ...]:
        """One for each node."""
        return (PlannedMachine(self.node.drift_ppm, self.node.flush_us), *self.others)
