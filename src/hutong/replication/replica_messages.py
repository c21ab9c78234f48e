"""The messages between two replicas of a partition group, as values.

    follower ── AskedToJoin ──▶ leader      ◀── JoinAnswered, or DivergenceTold: cut, and ask again
    follower ◀── ChunksShipped, CommitTold ── leader
    follower ── ChunksAcknowledged ──▶ leader
    either   ── EpochRefused ──▶ the other: there is a leader of a higher epoch

    follower ◀── FilesOffered ── leader     its stream lacks what the follower needs: only its files go on
    follower ── FilesAsked ──▶ leader       ◀── FilesListed
    follower ── FilePartAsked ──▶ leader    ◀── FilePartShipped, for each part of each file

Every message has the group and the epoch of the leader. One with another epoch than the receiver's changes nothing.
"""

from dataclasses import dataclass

from hutong.wire.buffer import Buffer


@dataclass(frozen=True, slots=True)
class AskedToJoin:
    """The sender's stream ends at `end_position`, with a chunk of `last_epoch` (-1: none)."""

    group: str
    epoch: int
    incarnation: int
    end_position: int
    last_epoch: int


@dataclass(frozen=True, slots=True)
class JoinAnswered:
    """The sender's stream has all of the receiver's; before the position all is committed."""

    group: str
    epoch: int
    committed_position: int


@dataclass(frozen=True, slots=True)
class DivergenceTold:
    """The sender has chunks of `last_epoch` up to the position, and none of the later ones it was asked about."""

    group: str
    epoch: int
    last_epoch: int
    end_position: int


@dataclass(frozen=True, slots=True)
class ChunksShipped:
    """Whole chunks from a position on."""

    group: str
    epoch: int
    start_position: int
    content: Buffer


@dataclass(frozen=True, slots=True)
class CommitTold:
    """Everything before the position is committed."""

    group: str
    epoch: int
    position: int


@dataclass(frozen=True, slots=True)
class ChunksAcknowledged:
    """The sender holds everything before the first position in memory, and has all before the second on disk."""

    group: str
    epoch: int
    held_position: int
    stored_position: int


@dataclass(frozen=True, slots=True)
class EpochRefused:
    """The sender knows of a leader of this epoch, which is higher than that of the message."""

    group: str
    epoch: int


@dataclass(frozen=True, slots=True)
class FilesOffered:
    """The sender's stream has no chunks any more that begin at the position: removed, or cleaned."""

    group: str
    epoch: int
    position: int


@dataclass(frozen=True, slots=True)
class FilesAsked:
    """The sender wants to put the receiver's files in the place of its own."""

    group: str
    epoch: int


@dataclass(frozen=True, slots=True)
class FilesListed:
    """The files that hold the stream before the position: of each a line with its name and size; none in trouble.

    `listing` is a number of its own: parts are asked for by it, since the next list has another checkpoint.
    """

    group: str
    epoch: int
    listing: int
    position: int
    lines: Buffer


@dataclass(frozen=True, slots=True)
class FilePartAsked:
    """The sender wants the bytes of a listed file from `start` on."""

    group: str
    epoch: int
    listing: int
    name: str
    start: int


@dataclass(frozen=True, slots=True)
class FilePartShipped:
    """A part of a listed file, with its CRC-32C; nothing where the file is gone: ask for the files again."""

    group: str
    epoch: int
    listing: int
    name: str
    start: int
    checksum: int
    content: Buffer


ReplicaMessage = (
    AskedToJoin
    | JoinAnswered
    | DivergenceTold
    | ChunksShipped
    | CommitTold
    | ChunksAcknowledged
    | EpochRefused
    | FilesOffered
    | FilesAsked
    | FilesListed
    | FilePartAsked
    | FilePartShipped
)
