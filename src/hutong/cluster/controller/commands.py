"""The commands of operators to the controller, and its replies, as values and as JSON: they reach it from other nodes.

Strategy: one tagged union for commands, so that a node passes on what it does not look at.

Knows nothing of how commands are carried out.
"""

from typing import Final

import msgspec

from hutong.cluster.nodes import DiskSpace
from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.error_codes import ErrorCode

COMMAND_BYTES_MAX: Final = 1024 * 1024
REPLY_BYTES_MAX: Final = 16 * 1024 * 1024


class MoveGroup(msgspec.Struct, frozen=True, tag=True):
    """Let a group have these replicas; without any, cancel the move that is under way.

    The nodes that take part copy at most `copied_bytes_per_second_max` meanwhile; 0: as much as their settings allow.
    """

    group: str
    replicas: tuple[int, ...]
    copied_bytes_per_second_max: int = 0


class SplitGroup(msgspec.Struct, frozen=True, tag=True):
    """Give these logs of a group a group of their own, `lifetime-NUMBER`, which is to have these replicas."""

    group: str
    lifetime: str
    log_ids: tuple[int, ...]
    replicas: tuple[int, ...]


class GroupIsLean(msgspec.Struct, frozen=True, tag=True):
    """Let a group that was split off move on: its leader has removed what others have left in it."""

    group: str


class DropGroup(msgspec.Struct, frozen=True, tag=True):
    """Remove a group that was split off: all of its partitions were deleted."""

    group: str


class DrainNode(msgspec.Struct, frozen=True, tag=True):
    """Take leaderships away from a node at once, and then its replicas. Asked again, it tells the progress."""

    node: int


class UndrainNode(msgspec.Struct, frozen=True, tag=True):
    """Let a node have replicas again."""

    node: int


class BalanceGroups(msgspec.Struct, frozen=True, tag=True):
    """Even out leaders and replicas, or only tell the plan. The node that is asked adds how much groups hold."""

    is_dry_run: bool = False
    held_bytes: dict[str, int] = {}


class ElectPreferred(msgspec.Struct, frozen=True, tag=True):
    """Let preferred leaders lead now: of these groups, or of all."""

    groups: tuple[str, ...] = ()


class ElectUnclean(msgspec.Struct, frozen=True, tag=True):
    """Let a replica lead that may lack what is committed, where no other can. What it lacks is lost."""

    group: str
    node: int


class ForgetNode(msgspec.Struct, frozen=True, tag=True):
    """Take a node that will never come back out of all groups."""

    node: int


class HandOverLeaders(msgspec.Struct, frozen=True, tag=True):
    """Let others lead what a node leads, for it is about to stop. Its replicas stay."""

    node: int


class ShowStatus(msgspec.Struct, frozen=True, tag=True):
    """Tell the state of nodes and groups. The node that is asked adds the partitions of each group, if wished."""

    with_partitions: bool = False


ControllerCommand = (
    MoveGroup
    | SplitGroup
    | GroupIsLean
    | DropGroup
    | DrainNode
    | UndrainNode
    | BalanceGroups
    | ElectPreferred
    | ElectUnclean
    | ForgetNode
    | HandOverLeaders
    | ShowStatus
)


class MemberStatus(msgspec.Struct, frozen=True):
    """A node that is known. `moving_out` of its replicas are on their way to others, failed ones need a restart.

    `disk` is its own last word, while it is alive.
    """

    node: int
    is_live: bool
    rack: str | None
    is_drained: bool
    led_groups: int
    preferred_groups: int
    replicas: int
    replicas_behind: int
    replicas_failed: int
    moving_out: int
    disk: DiskSpace | None = None


class GroupProgress(msgspec.Struct, frozen=True):
    """A group. `target` are the replicas that it shall have, where it is on its way to others from `before`.

    `stream_bytes` is the length of its leader's stream, None where that says nothing, and `held_bytes` what is left of
    it. `lags` has what each follower has not stored, `copied` what followers have of whole files that are not in their
    places yet. `copied_bytes_per_second_max` slows the move; 0: it does not.
    """

    name: str
    epoch: int
    version: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...]
    min_in_sync: int
    target: tuple[int, ...] | None = None
    before: tuple[int, ...] = ()
    stream_bytes: int | None = None
    lags: dict[int, int] = {}
    copied: dict[int, int] = {}
    held_bytes: int | None = None
    copied_bytes_per_second_max: int = 0

    @property
    def copied_bytes(self) -> int | None:
        """The part of the stream that the slowest new replica has; None where nothing is known of it."""
        new = set(self.target or ()).difference(self.before)
        if not new or self.stream_bytes is None:
            return None
        # A replica that gets whole files has stored nothing of the stream before they are in their places.
        return min(
            max(self.stream_bytes - self.lags.get(node, self.stream_bytes), self.copied.get(node, 0)) for node in new
        )


class SplitProgress(msgspec.Struct, frozen=True):
    """A group of these logs shall have the replicas `target`, and does not move on yet."""

    log_ids: tuple[int, ...]
    target: tuple[int, ...]


class ControllerStatus(msgspec.Struct, frozen=True):
    """The group `metadata`, which is not the controller's, is added by the node that was asked.

    `splits` have the groups that are, or will be, split off and do not move yet.
    """

    nodes: tuple[MemberStatus, ...]
    groups: tuple[GroupProgress, ...]
    splits: dict[str, SplitProgress] = {}


class CommandReply(msgspec.Struct, frozen=True):
    """`groups` are those that the command changed or will change, with the replicas or the leader they shall have.

    `partitions` are those of each group, by topic.
    """

    error: int = ErrorCode.NONE
    message: str = ""
    groups: dict[str, tuple[int, ...]] = {}
    status: ControllerStatus | None = None
    partitions: dict[str, dict[str, list[int]]] = {}


_commands: Final[msgspec.json.Decoder[ControllerCommand]] = msgspec.json.Decoder(ControllerCommand)
_replies: Final = msgspec.json.Decoder(CommandReply)


def encode_command(command: ControllerCommand) -> bytes:
    return msgspec.json.encode(command)


def decode_command(content: bytes) -> ControllerCommand:
    """Raises ProtocolError."""
    if len(content) > COMMAND_BYTES_MAX:
        raise ProtocolError(f"a command of {len(content)} bytes")
    try:
        return _commands.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a command is none: {error}") from None


def encode_reply(reply: CommandReply) -> bytes:
    return msgspec.json.encode(reply)


def decode_reply(content: bytes) -> CommandReply:
    """Raises ProtocolError."""
    if len(content) > REPLY_BYTES_MAX:
        raise ProtocolError(f"a reply of {len(content)} bytes")
    try:
        return _replies.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a reply is none: {error}") from None
