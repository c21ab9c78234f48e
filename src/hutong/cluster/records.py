"""The records by which the cluster remembers its decisions: in the metadata log, and one in the coordinator's register.

    group/NAME               PartitionGroupState; that of the group `metadata` is the value of the register instead
    cluster/settings         FoundingSettings
    cluster/node/NUMBER      KnownNode: it was a part of the cluster once, and is until it is forgotten
    cluster/drained/NUMBER   the node shall have no replicas
    cluster/move/NAME        PlannedMove: the group is on its way to other replicas
    cluster/split/NAME       Split: the group is, or will be, split off another one
    cluster/target/NAME      SplitTarget: such a group shall have these replicas, and does not move on yet
    cluster/split-number     the greatest number of such a group, also of those that are gone

Strategy: JSON, since a person may have to read it. A value is checked against the rules when it is read, so nothing
that no controller has written is ever applied.

Knows nothing of logs, nor of how decisions are made.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias, TypeVar

import msgspec

from hutong.cluster.set_rules import problem_of
from hutong.cluster.splits import Split
from hutong.foundation.errors import ProtocolError
from hutong.replication.group_state import PartitionGroupState

GROUP_PREFIX: Final = b"group/"
CLUSTER_PREFIX: Final = b"cluster/"
SETTINGS_KEY: Final = b"cluster/settings"
NODE_PREFIX: Final = b"cluster/node/"
DRAINED_PREFIX: Final = b"cluster/drained/"
MOVE_PREFIX: Final = b"cluster/move/"
SPLIT_PREFIX: Final = b"cluster/split/"
TARGET_PREFIX: Final = b"cluster/target/"
SPLIT_NUMBER_KEY: Final = b"cluster/split-number"
VALUE_BYTES_MAX: Final = 64 * 1024
NODE_MAX: Final = 2**31 - 1
REPLICAS_MAX: Final = 64

T = TypeVar("T")
ClusterRecord: TypeAlias = tuple[bytes, bytes | None]
"""Key and value of a record in the metadata log. None is a tombstone."""


class FoundingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that are fixed when a cluster is founded. `min_in_sync` 0 is the majority of the replicas.

    `coordinators` is 1 in clusters that were founded before there was the setting.
    """

    slots: int = 3
    replicas: int = 3
    min_in_sync: int = 0
    coordinators: int = 1


class KnownNode(msgspec.Struct, frozen=True):
    """A node that was here once. `origin` is the number of its disk: None of a version that did not say.

    `lost` are the groups whose only member it is, by a disk that it has no more.
    """

    rack: str | None = None
    origin: int | None = None
    lost: tuple[str, ...] = ()


class PlannedMove(msgspec.Struct, frozen=True):
    """A group shall have the replicas `target`; it had those of `before`, which a cancelled move goes back to.

    The nodes that take part copy at most `copied_bytes_per_second_max` meanwhile; 0: as much as their settings allow.
    """

    target: tuple[int, ...]
    before: tuple[int, ...]
    copied_bytes_per_second_max: int = 0


class SplitTarget(msgspec.Struct, frozen=True):
    """A group that is split off shall have these replicas."""

    replicas: tuple[int, ...]


class _GroupValue(msgspec.Struct, frozen=True):
    """Members are in order, so that equal states have equal values."""

    name: str
    epoch: int
    version: int
    leader: int
    leader_incarnation: int
    replicas: list[int]
    in_sync: list[int]
    eligible: list[int]
    min_in_sync: int
    splits: int = 0


def group_key(name: str) -> bytes:
    return GROUP_PREFIX + name.encode()


def move_key(name: str) -> bytes:
    return MOVE_PREFIX + name.encode()


def split_key(name: str) -> bytes:
    return SPLIT_PREFIX + name.encode()


def target_key(name: str) -> bytes:
    return TARGET_PREFIX + name.encode()


def node_key(node: int) -> bytes:
    return NODE_PREFIX + b"%d" % node


def drained_key(node: int) -> bytes:
    return DRAINED_PREFIX + b"%d" % node


def group_record(state: PartitionGroupState) -> ClusterRecord:
    return group_key(state.name), encode_group(state)


def encode_group(state: PartitionGroupState) -> bytes:
    value = _GroupValue(
        state.name,
        state.epoch,
        state.version,
        state.leader,
        state.leader_incarnation,
        list(state.replicas),
        sorted(state.in_sync),
        sorted(state.eligible),
        state.min_in_sync,
        state.splits,
    )
    return msgspec.json.encode(value)


def decode_group(content: bytes) -> PartitionGroupState:
    """Raises ProtocolError for what is not the state of any group."""
    value = _decode(content, _GroupValue, "a group's state")
    if len(value.in_sync) != len(set(value.in_sync)) or len(value.eligible) != len(set(value.eligible)):
        raise ProtocolError("a group's state is none: a member twice")
    _check_replicas(value.replicas, "a group's state")
    state = PartitionGroupState(
        value.name,
        value.epoch,
        value.version,
        value.leader,
        value.leader_incarnation,
        tuple(value.replicas),
        frozenset(value.in_sync),
        frozenset(value.eligible),
        value.min_in_sync,
        value.splits,
    )
    problem = problem_of(state)
    if problem is not None:
        raise ProtocolError(f"a group's state is none: {problem}")
    return state


def encode_groups(states: Iterable[PartitionGroupState]) -> bytes:
    """The states of several groups, one a line."""
    return b"\n".join(encode_group(state) for state in states)


def decode_groups(content: bytes) -> list[PartitionGroupState]:
    """Raises ProtocolError for what is not the state of any group."""
    return [decode_group(line) for line in content.splitlines()]


def encode_settings(settings: FoundingSettings) -> bytes:
    return msgspec.json.encode(settings)


def decode_settings(content: bytes) -> FoundingSettings:
    """Raises ProtocolError for what no cluster was founded with."""
    settings = _decode(content, FoundingSettings, "the cluster's settings")
    if (
        settings.slots < 1
        or settings.coordinators < 1
        or not 1 <= settings.replicas <= REPLICAS_MAX
        or settings.min_in_sync < 0
    ):
        raise ProtocolError("the cluster's settings are none: out of range")
    return settings


def encode_node(node: KnownNode) -> bytes:
    return msgspec.json.encode(node)


def decode_node(content: bytes) -> KnownNode:
    """Raises ProtocolError."""
    return _decode(content, KnownNode, "a known node")


def encode_move(move: PlannedMove) -> bytes:
    return msgspec.json.encode(move)


def decode_move(content: bytes) -> PlannedMove:
    """Raises ProtocolError for what is no move."""
    move = _decode(content, PlannedMove, "a planned move")
    for replicas in (move.target, move.before):
        _check_replicas(replicas, "a planned move")
    if move.copied_bytes_per_second_max < 0:
        raise ProtocolError("a planned move is none: its rate is below 0")
    return move


def encode_split(split: Split) -> bytes:
    return msgspec.json.encode(split)


def decode_split(key: bytes, content: bytes) -> tuple[str, Split]:
    """The name of the group, and the split. Raises ProtocolError for what is none."""
    name, split = decode_name(key, SPLIT_PREFIX), _decode(content, Split, "a split")
    if not split.log_ids or split.epoch < 0 or not name.rpartition("-")[2].isdecimal():
        raise ProtocolError("a split is none: nothing is split off, or the group has no number")
    return name, split


def encode_target(target: SplitTarget) -> bytes:
    return msgspec.json.encode(target)


def decode_target(content: bytes) -> SplitTarget:
    """Raises ProtocolError for what is no target."""
    target = _decode(content, SplitTarget, "a target")
    _check_replicas(target.replicas, "a target")
    return target


def decode_number(key: bytes, prefix: bytes) -> int:
    """The node's number in a key. Raises ProtocolError."""
    digits = key.removeprefix(prefix)
    if not digits.isdigit() or len(digits) > 10 or int(digits) > NODE_MAX or digits != b"%d" % int(digits):
        raise ProtocolError(f"no number of a node: {digits[:20]!r}")
    return int(digits)


def decode_name(key: bytes, prefix: bytes) -> str:
    """The group's name in a key. Raises ProtocolError."""
    try:
        return key.removeprefix(prefix).decode()
    except UnicodeDecodeError:
        raise ProtocolError("a group's name is not UTF-8") from None


def _check_replicas(replicas: list[int] | tuple[int, ...], what: str) -> None:
    is_distinct = len(set(replicas)) == len(replicas)
    if not is_distinct or not 1 <= len(replicas) <= REPLICAS_MAX or not 0 <= min(replicas) <= max(replicas) <= NODE_MAX:
        raise ProtocolError(f"{what} is none: these are no replicas")


def _decode(content: bytes, kind: type[T], what: str) -> T:
    if len(content) > VALUE_BYTES_MAX:
        raise ProtocolError(f"{what} of {len(content)} bytes")
    try:
        return msgspec.json.decode(content, type=kind)
    # Text in JSON that is not UTF-8 is a UnicodeDecodeError of its own.
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"{what} is none: {error}") from None


def is_cluster_key(key: bytes) -> bool:
    """Return True for a key of the metadata log that belongs to the cluster, not to the broker."""
    return key.startswith((GROUP_PREFIX, CLUSTER_PREFIX))
