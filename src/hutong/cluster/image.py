"""The decisions of the cluster as the metadata log has them: a replay of its records, and the newest of each.

Strategy: every node keeps one, fed record by record as the metadata commits. A new controller begins from it.

Knows nothing of logs: records are given to it.
"""

from hutong.cluster.records import (
    DRAINED_PREFIX,
    GROUP_PREFIX,
    MOVE_PREFIX,
    NODE_PREFIX,
    SETTINGS_KEY,
    SPLIT_NUMBER_KEY,
    SPLIT_PREFIX,
    TARGET_PREFIX,
    FoundingSettings,
    KnownNode,
    PlannedMove,
    SplitTarget,
    decode_group,
    decode_move,
    decode_name,
    decode_node,
    decode_number,
    decode_settings,
    decode_split,
    decode_target,
)
from hutong.cluster.splits import Split
from hutong.foundation.errors import ProtocolError
from hutong.replication.group_state import PartitionGroupState


class ClusterImage:
    """All groups but `metadata`, and what operators want. `settings` is None until the cluster is founded."""

    def __init__(self) -> None:
        self.settings: FoundingSettings | None = None
        self.groups: dict[str, PartitionGroupState] = {}
        self.nodes: dict[int, KnownNode] = {}
        self.forgotten: set[int] = set()  # were taken out of `nodes`, as far as the log still says so
        self.drained: set[int] = set()
        self.moves: dict[str, PlannedMove] = {}
        self.splits: dict[str, Split] = {}
        self.targets: dict[str, SplitTarget] = {}
        self.split_number = 0  # the greatest that a group was given

    def apply(self, key: bytes, value: bytes | None) -> PartitionGroupState | None:
        """Apply one record, oldest first; returns the state of a group that the record changed.

        Raises ProtocolError. Keys of later versions are left alone.
        """
        if key.startswith(GROUP_PREFIX):
            return self._apply_group(decode_name(key, GROUP_PREFIX), value)
        if key == SETTINGS_KEY and value is not None:
            self.settings = decode_settings(value)
        elif key.startswith(NODE_PREFIX):
            self._apply_node(decode_number(key, NODE_PREFIX), value)
        elif key.startswith(DRAINED_PREFIX):
            node = decode_number(key, DRAINED_PREFIX)
            if value is None:
                self.drained.discard(node)
            else:
                self.drained.add(node)
        elif key.startswith(MOVE_PREFIX):
            self._apply_move(decode_name(key, MOVE_PREFIX), value)
        elif key.startswith(SPLIT_PREFIX):
            self._apply_split(key, value)
        elif key.startswith(TARGET_PREFIX):
            self._apply_target(decode_name(key, TARGET_PREFIX), value)
        elif key == SPLIT_NUMBER_KEY and value is not None:
            self.split_number = decode_number(value, b"")
        return None

    def copy(self) -> "ClusterImage":
        """A copy that changes by itself; the values in it never change."""
        copied = ClusterImage()
        copied.settings = self.settings
        copied.groups = dict(self.groups)
        copied.nodes = dict(self.nodes)
        copied.forgotten = set(self.forgotten)
        copied.drained = set(self.drained)
        copied.moves = dict(self.moves)
        copied.splits = dict(self.splits)
        copied.targets = dict(self.targets)
        copied.split_number = self.split_number
        return copied

    def _apply_group(self, name: str, value: bytes | None) -> PartitionGroupState | None:
        if value is None:
            self.groups.pop(name, None)
            return None
        state = decode_group(value)
        if state.name != name:
            raise ProtocolError(f"the state of group {state.name[:50]!r} under the key of {name[:50]!r}")
        self.groups[name] = state
        return state

    def _apply_node(self, node: int, value: bytes | None) -> None:
        if value is None:
            self.nodes.pop(node, None)
            self.forgotten.add(node)
        else:
            self.nodes[node] = decode_node(value)
            self.forgotten.discard(node)

    def _apply_split(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.splits.pop(decode_name(key, SPLIT_PREFIX), None)
        else:
            name, split = decode_split(key, value)
            self.splits[name] = split

    def _apply_target(self, name: str, value: bytes | None) -> None:
        if value is None:
            self.targets.pop(name, None)
        else:
            self.targets[name] = decode_target(value)

    def _apply_move(self, name: str, value: bytes | None) -> None:
        if value is None:
            self.moves.pop(name, None)
        else:
            self.moves[name] = decode_move(value)
