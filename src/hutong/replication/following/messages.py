"""The events of a follower of a partition group, and its instructions. Positions are those of the group's journal."""

from msgspec import Struct

from hutong.foundation.machine import Tick
from hutong.wire.buffer import Buffer


class LeaderConnected(Struct, frozen=True, gc=False):
    """There is a connection to the leader of this epoch."""

    epoch: int
    now_ms: int


class LeaderLost(Struct, frozen=True, gc=False):
    """The connection to the leader has ended."""


class LeaderChosen(Struct, frozen=True, gc=False):
    """The cluster has a leader of this epoch: the one before it leads no more."""

    epoch: int


class JoinAccepted(Struct, frozen=True, gc=False):
    """The leader has the whole stream of this follower, and sends what comes after it.

    There everything before the position is committed, which may be behind the end of this stream yet.
    """

    committed_position: int
    now_ms: int


class Diverged(Struct, frozen=True, gc=False):
    """The leader has chunks of `epoch` up to the position, and none of the later epochs that were asked about."""

    epoch: int
    end_position: int


class JournalCut(Struct, frozen=True, gc=False):
    """The journal is open again, and ends where it was to be cut, or before that."""

    end_position: int
    now_ms: int


class ChunksArrived(Struct, frozen=True, gc=False):
    """The leader of this epoch has sent chunks from a position on."""

    epoch: int
    start_position: int
    content: Buffer


class CommitArrived(Struct, frozen=True, gc=False):
    """The leader of this epoch says that everything before the position is committed."""

    epoch: int
    position: int


class ReplicaGrew(Struct, frozen=True, gc=False):
    """The journal reaches to `end_position`, and is on disk up to `flushed_position`.

    `is_flushing`: a flush is under way, after whose end this comes again.
    """

    end_position: int
    flushed_position: int
    now_ms: int
    is_flushing: bool = False


class AskToJoin(Struct, frozen=True, gc=False):
    """Tell the leader how far the stream reaches, and of which epoch its last chunk is."""

    end_position: int
    last_epoch: int


class CutAt(Struct, frozen=True, gc=False):
    """Close the journal, cut it at a position and open it again; then say `JournalCut`."""

    position: int


class TakeChunks(Struct, frozen=True, gc=False):
    """Append these chunks to the journal, with every check; then say `ReplicaGrew`. Disconnect where they fail."""

    start_position: int
    content: Buffer


class AcknowledgeChunks(Struct, frozen=True, gc=False):
    """Tell the leader what is held in memory, and what is on disk."""

    held_position: int
    stored_position: int


class NoteCommitted(Struct, frozen=True, gc=False):
    """Everything before the position is committed: let readers see it."""

    position: int


class Disconnect(Struct, frozen=True, gc=False):
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
