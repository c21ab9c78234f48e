"""The events of a follower of a partition group, and its instructions. Positions are those of the group's journal."""

from dataclasses import dataclass

from hutong.foundation.machine import Tick
from hutong.wire.buffer import Buffer


@dataclass(frozen=True, slots=True)
class LeaderConnected:
    """There is a connection to the leader of this epoch."""

    epoch: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class LeaderLost:
    """The connection to the leader has ended."""


@dataclass(frozen=True, slots=True)
class LeaderChosen:
    """The cluster has a leader of this epoch: the one before it leads no more."""

    epoch: int


@dataclass(frozen=True, slots=True)
class JoinAccepted:
    """The leader has the whole stream of this follower, and sends what comes after it.

    There everything before the position is committed, which may be behind the end of this stream yet.
    """

    committed_position: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class Diverged:
    """The leader has chunks of `epoch` up to the position, and none of the later epochs that were asked about."""

    epoch: int
    end_position: int


@dataclass(frozen=True, slots=True)
class JournalCut:
    """The journal is open again, and ends where it was to be cut, or before that."""

    end_position: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class ChunksArrived:
    """The leader of this epoch has sent chunks from a position on."""

    epoch: int
    start_position: int
    content: Buffer


@dataclass(frozen=True, slots=True)
class CommitArrived:
    """The leader of this epoch says that everything before the position is committed."""

    epoch: int
    position: int


@dataclass(frozen=True, slots=True)
class ReplicaGrew:
    """The journal reaches to `end_position`, and is on disk up to `flushed_position`."""

    end_position: int
    flushed_position: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class AskToJoin:
    """Tell the leader how far the stream reaches, and of which epoch its last chunk is."""

    end_position: int
    last_epoch: int


@dataclass(frozen=True, slots=True)
class CutAt:
    """Close the journal, cut it at a position and open it again; then say `JournalCut`."""

    position: int


@dataclass(frozen=True, slots=True)
class TakeChunks:
    """Append these chunks to the journal, with every check; then say `ReplicaGrew`. Disconnect where they fail."""

    start_position: int
    content: Buffer


@dataclass(frozen=True, slots=True)
class AcknowledgeChunks:
    """Tell the leader what is held in memory, and what is on disk."""

    held_position: int
    stored_position: int


@dataclass(frozen=True, slots=True)
class NoteCommitted:
    """Everything before the position is committed: let readers see it."""

    position: int


@dataclass(frozen=True, slots=True)
class Disconnect:
    """End the connection; who sent that is not the leader, or is broken."""

    reason: str


FollowerEvent = (
    LeaderChosen
    | LeaderConnected
    | LeaderLost
    | JoinAccepted
    | Diverged
    | JournalCut
    | ChunksArrived
    | CommitArrived
    | ReplicaGrew
    | Tick
)
FollowerInstruction = AskToJoin | CutAt | TakeChunks | AcknowledgeChunks | NoteCommitted | Disconnect
