"""Events and instructions of the machine of high availability.

One operation on entries is under way at a time: `WriteOwn` or `TakeOver`. It ends with one of three events.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from hutong.bus.clustered.availability.entries import HaVerticle, NodeEntry

# Events.


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """All nodes, read before all entries, each with its version. No operation is under way."""

    nodes: frozenset[str]
    entries: Mapping[str, tuple[NodeEntry, int]]


@dataclass(frozen=True, slots=True)
class CutOff:
    """The session of this node may have ended."""


@dataclass(frozen=True, slots=True)
class DeployAsked:
    """The program wants the verticle to run, here or wherever this node's verticles go."""

    verticle: HaVerticle


@dataclass(frozen=True, slots=True)
class UndeployAsked:
    """The program wants it to run nowhere any more."""

    id: str


@dataclass(frozen=True, slots=True)
class VerticleStarted:
    """It runs."""

    id: str


@dataclass(frozen=True, slots=True)
class VerticleFailed:
    """It could not be made, or its start has failed."""

    id: str


@dataclass(frozen=True, slots=True)
class VerticleStopped:
    """It runs no more."""

    id: str


@dataclass(frozen=True, slots=True)
class OwnWritten:
    """The entry of this node has this version now."""

    version: int


@dataclass(frozen=True, slots=True)
class NodeTakenOver:
    """The entry of the dead node is gone, and this node's own has its verticles."""

    version: int


@dataclass(frozen=True, slots=True)
class OperationFailed:
    """Nothing was changed, or nobody knows. `ClusterSeen` follows."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """The node is about to close: it takes nothing over and begins nothing."""


Event: TypeAlias = (
    ClusterSeen
    | CutOff
    | DeployAsked
    | UndeployAsked
    | VerticleStarted
    | VerticleFailed
    | VerticleStopped
    | OwnWritten
    | NodeTakenOver
    | OperationFailed
    | Leaving
)

# Instructions.


@dataclass(frozen=True, slots=True)
class WriteOwn:
    """Write the entry of this node, if it has this version; None where it is not there."""

    verticles: tuple[HaVerticle, ...]
    version: int | None


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Remove the entry of a dead node and write this one's own, both or neither, if they have these versions.

    Not if the node is there.
    """

    node: str
    node_version: int
    verticles: tuple[HaVerticle, ...]
    version: int


@dataclass(frozen=True, slots=True)
class StartVerticle:
    """Make it and start it."""

    verticle: HaVerticle


@dataclass(frozen=True, slots=True)
class StopVerticle:
    """Undeploy it."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Accept:
    """Tell the program that its verticle is deployed: it runs, and the other nodes know of it."""

    id: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Tell the program that the verticle is no longer this node's. It does not run."""

    id: str


@dataclass(frozen=True, slots=True)
class NoteQuorum:
    """Note that the quorum is there, or that it is lost."""

    is_attained: bool
    nodes: int  # of the group


@dataclass(frozen=True, slots=True)
class NoteFailover:
    """Note that a dead node's verticles are this one's now."""

    node: str
    count: int


@dataclass(frozen=True, slots=True)
class NoteNoRoom:
    """Note that a dead node's verticles stay where they are, since this node would have too many."""

    node: str
    count: int


Instruction: TypeAlias = (
    WriteOwn | TakeOver | StartVerticle | StopVerticle | Accept | Drop | NoteQuorum | NoteFailover | NoteNoRoom
)
