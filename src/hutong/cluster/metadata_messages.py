"""The events of the election of the group `metadata`, and its instructions.

`live` has the incarnations of all nodes that are alive to this one, itself always among them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hutong.foundation.machine import Tick
from hutong.replication.group_state import PartitionGroupState


@dataclass(frozen=True, slots=True)
class RegisterRead:
    """The register has this value. The version is 0 and the state None while nothing was ever written."""

    version: int
    state: PartitionGroupState | None
    now_ms: int


@dataclass(frozen=True, slots=True)
class LiveChanged:
    """Other nodes are alive now, or other lives of them."""

    live: Mapping[int, int]
    now_ms: int


@dataclass(frozen=True, slots=True)
class RegisterWritten:
    """The value of `WriteRegister` was written, and has this version now."""

    version: int
    state: PartitionGroupState
    now_ms: int


@dataclass(frozen=True, slots=True)
class RegisterRefused:
    """The register has another version, which will be read."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class RegisterUnknown:
    """The coordinator does not answer. It may have written what it was asked to, or may still."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class MetadataShort:
    """One life of a node lacks space for `metadata`, or lacks it no more."""

    node: int
    incarnation: int
    is_short: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class ReachChanged:
    """These nodes are out of reach of most nodes: they reach no majority, and others do."""

    out_of_reach: frozenset[int]
    now_ms: int


@dataclass(frozen=True, slots=True)
class SetProposedHere:
    """The leader of `metadata` on this node proposes a set of (node, incarnation) instead of that of `version`."""

    version: int
    followers: frozenset[tuple[int, int]]
    now_ms: int


@dataclass(frozen=True, slots=True)
class IntentsChanged:
    """Operators want these nodes to replicate `metadata` no more: once another node does instead, or at once.

    `withdrawn` are all that are drained now, `forgotten` those that will never come back, unless they live.
    """

    withdrawn: frozenset[int]
    forgotten: frozenset[int]
    now_ms: int


@dataclass(frozen=True, slots=True)
class WriteRegister:
    """Write the state if the register has this version still. One write at a time."""

    version: int
    state: PartitionGroupState


@dataclass(frozen=True, slots=True)
class ApplyState:
    """The group has this state now."""

    state: PartitionGroupState


@dataclass(frozen=True, slots=True)
class RefuseProposal:
    """The leader's proposal for this version will never be taken."""

    version: int


MetadataEvent = (
    RegisterRead
    | LiveChanged
    | RegisterWritten
    | RegisterRefused
    | RegisterUnknown
    | MetadataShort
    | ReachChanged
    | SetProposedHere
    | IntentsChanged
    | Tick
)
MetadataInstruction = WriteRegister | ApplyState | RefuseProposal
