"""The events of the controller, and its instructions. Times are monotonic milliseconds."""

from collections.abc import Mapping
from dataclasses import dataclass

from hutong.cluster.controller.commands import CommandReply, ControllerCommand
from hutong.cluster.nodes import DiskSpace
from hutong.cluster.placement import EVEN_WEIGHT
from hutong.cluster.records import ClusterRecord
from hutong.foundation.machine import Answer, Tick
from hutong.replication.group_state import PartitionGroupState


@dataclass(frozen=True, slots=True)
class LiveNode:
    """One life of a node that is alive. `weight` is its share of replicas: its disk space where that is known.

    One that the controller does not reach can neither hear of decisions nor propose a set.
    """

    incarnation: int
    rack: str | None = None
    weight: int = EVEN_WEIGHT
    disk: DiskSpace | None = None
    origin: int | None = None  # the number of the disk; None: an older version, which does not say
    is_reached: bool = True


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """These nodes are alive now. All nodes that are not here are dead."""

    live: Mapping[int, LiveNode]
    now_ms: int


@dataclass(frozen=True, slots=True)
class ReplicaFailed:
    """The journal of a group has failed on one life of a node, which neither leads it nor follows any more."""

    node: int
    incarnation: int
    group: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class ReplicaShort:
    """The journal of a group on one life of a node lacks space, or lacks it no more."""

    node: int
    incarnation: int
    group: str
    is_short: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class Yielded:
    """The leader of this epoch takes nothing more for a while, and its followers have what it has."""

    group: str
    epoch: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class SetProposed:
    """One life of a node, which leads the group, proposes a set of (node, incarnation) besides itself."""

    ticket: int
    node: int
    incarnation: int
    group: str
    epoch: int
    version: int
    followers: frozenset[tuple[int, int]]
    now_ms: int


@dataclass(frozen=True, slots=True)
class CommandAsked:
    """An operator asks for something."""

    ticket: int
    command: ControllerCommand
    now_ms: int


@dataclass(frozen=True, slots=True)
class StoreDecisions:
    """Append these records to the metadata. Answers that follow wait for it."""

    records: tuple[ClusterRecord, ...]


@dataclass(frozen=True, slots=True)
class AskToYield:
    """Let the leader of this epoch, a node, take nothing more and wait for its followers; then say `Yielded`."""

    group: str
    epoch: int
    node: int


@dataclass(frozen=True, slots=True)
class ProposalReply:
    """A proposal that is not taken will never be. `state` is the present one; None: there is no such group."""

    is_taken: bool
    state: PartitionGroupState | None


ControllerEvent = NodesChanged | ReplicaFailed | ReplicaShort | Yielded | SetProposed | CommandAsked | Tick
ControllerInstruction = StoreDecisions | AskToYield | Answer[ProposalReply] | Answer[CommandReply]
