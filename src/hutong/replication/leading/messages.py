"""The events of the leader of a partition group, and its instructions.

Positions are those of the group's journal, nodes their numbers. An incarnation names one life of a node (KIP-903).
"""

from dataclasses import dataclass

from msgspec import Struct

from hutong.foundation.machine import Tick


@dataclass(frozen=True, slots=True)
class ReplicaSet:
    """The group as the cluster knows it. `version` counts its changes within an epoch (KIP-497)."""

    epoch: int
    version: int
    in_sync: frozenset[int]
    min_in_sync: int


class FollowerJoined(Struct, frozen=True, gc=False):
    """A follower has the stream up to `end_position`, the last chunk of which is of `last_epoch` (-1: none)."""

    node: int
    incarnation: int
    end_position: int
    last_epoch: int
    now_ms: int


class FollowerLeft(Struct, frozen=True, gc=False):
    """The connection to a follower has ended."""

    node: int
    now_ms: int


class Acknowledged(Struct, frozen=True, gc=False):
    """A follower holds everything before the first position in memory, and has all before the second on disk.

    It says so with each change, and several times in `LAG_MS_MAX` without one.
    """

    node: int
    held_position: int
    stored_position: int
    now_ms: int


class StreamGrew(Struct, frozen=True, gc=False):
    """The leader's own stream reaches to `end_position`, and is on its disk up to `flushed_position`."""

    end_position: int
    flushed_position: int


class Shipped(Struct, frozen=True, gc=False):
    """The chunks that a `Ship` from this position on asked for are on their way. The follower may get more."""

    node: int
    start_position: int
    end_position: int


class SetCommitted(Struct, frozen=True, gc=False):
    """The cluster has a new set: the one that was proposed, or another."""

    replicas: ReplicaSet
    now_ms: int


class ProposalRefused(Struct, frozen=True, gc=False):
    """The cluster will never take the proposal that was made for this version."""

    version: int
    now_ms: int


class TellDivergence(Struct, frozen=True, gc=False):
    """Let a follower cut its stream: of this epoch, or one before it, the leader has the chunks up to the position."""

    node: int
    epoch: int
    end_position: int


class TellJoined(Struct, frozen=True, gc=False):
    """Let a follower know that its stream is a part of the leader's: chunks and commits follow."""

    node: int
    committed_position: int


class Ship(Struct, frozen=True, gc=False):
    """Send chunks from this position on, as many as are useful, and say so with `Shipped`."""

    node: int
    start_position: int


class Replicated(Struct, frozen=True, gc=False):
    """The other replicas that count hold everything before the first position, and have all before the second on disk.

    Neither decreases.
    """

    held_position: int
    stored_position: int


class TellCommitted(Struct, frozen=True, gc=False):
    """Let all followers know that everything before the position is committed."""

    position: int


class ProposeSet(Struct, frozen=True, gc=False):
    """Ask for this set of (node, incarnation) instead of the one of `version`; the leader is not among them."""

    version: int
    followers: frozenset[tuple[int, int]]


class ReplicasMissing(Struct, frozen=True, gc=False):
    """Fewer are in sync than must be: nothing is committed any more."""

    in_sync: int
    needed: int


LeaderEvent = (
    FollowerJoined | FollowerLeft | Acknowledged | StreamGrew | Shipped | SetCommitted | ProposalRefused | Tick
)
LeaderInstruction = TellDivergence | TellJoined | Ship | Replicated | TellCommitted | ProposeSet | ReplicasMissing
