"""The newest decisions of the controller, stored or not yet, and the records that say them.

Strategy: a change takes effect here at once, so the next decision builds on it. Answers wait for the disk instead.

Knows nothing of reasons: rules and repairs have them.
"""

from collections.abc import Iterable, Iterator, Mapping

from hutong.cluster.controller.handovers import Handovers
from hutong.cluster.image import ClusterImage
from hutong.cluster.placement import Placement, PlacementNode, Replicas
from hutong.cluster.records import (
    SETTINGS_KEY,
    SPLIT_NUMBER_KEY,
    ClusterRecord,
    FoundingSettings,
    KnownNode,
    PlannedMove,
    SplitTarget,
    drained_key,
    encode_move,
    encode_node,
    encode_settings,
    encode_split,
    encode_target,
    group_key,
    group_record,
    move_key,
    node_key,
    split_key,
    target_key,
)
from hutong.cluster.set_rules import needed_in_sync
from hutong.cluster.splits import Split, next_number
from hutong.replication.group_state import PartitionGroupState


class ClusterDecisions:
    """A cluster's image that is changed by decisions, each of which becomes a record."""

    def __init__(self, image: ClusterImage, settings: FoundingSettings) -> None:
        """`settings` are those of a new cluster; one that is founded keeps its own."""
        self._image = image.copy()
        self._names: list[str] = []
        self._records: dict[bytes, bytes | None] = {}  # not taken yet; the last of each key
        if image.settings is None:
            self._records[SETTINGS_KEY] = encode_settings(settings)
        self.settings = image.settings or settings
        self.handovers = Handovers()

    # ---- what is decided

    @property
    def groups(self) -> Mapping[str, PartitionGroupState]:
        return self._image.groups

    @property
    def nodes(self) -> Mapping[int, KnownNode]:
        return self._image.nodes

    @property
    def drained(self) -> frozenset[int]:
        return frozenset(self._image.drained)

    @property
    def moves(self) -> Mapping[str, PlannedMove]:
        return self._image.moves

    @property
    def splits(self) -> Mapping[str, Split]:
        return self._image.splits

    @property
    def targets(self) -> Mapping[str, SplitTarget]:
        return self._image.targets

    def states(self) -> Iterator[PartitionGroupState]:
        """All groups by their names; they may be changed meanwhile."""
        groups = self._image.groups
        if len(self._names) != len(groups):  # where one is removed they are made anew, too
            self._names = sorted(groups)
        return (groups[name] for name in self._names)

    def wanted_replicas(self, name: str) -> Replicas:
        """The replicas that a group has, or shall have where it moves."""
        move = self._image.moves.get(name)
        return self._image.groups[name].replicas if move is None else move.target

    def needed(self, name: str, replicas: Replicas) -> int:
        """The least size of the group's set; replicas that are here only while it moves do not count."""
        move = self._image.moves.get(name)
        count = len(replicas) if move is None else len(move.target)
        return needed_in_sync(count, self.settings.min_in_sync)

    def placement(self, nodes: Iterable[PlacementNode]) -> Placement:
        """A placement of all groups, to plan with."""
        return Placement({name: self.wanted_replicas(name) for name in self._image.groups}, nodes)

    # ---- changes

    def put_group(self, state: PartitionGroupState) -> None:
        self._image.groups[state.name] = state
        key, value = group_record(state)
        self._records[key] = value

    def put_node(self, node: int, known: KnownNode | None) -> None:
        if known is None:
            self._image.nodes.pop(node, None)
        else:
            self._image.nodes[node] = known
        self._records[node_key(node)] = None if known is None else encode_node(known)

    def put_drained(self, node: int, *, is_drained: bool) -> None:
        if is_drained:
            self._image.drained.add(node)
        else:
            self._image.drained.discard(node)
        self._records[drained_key(node)] = b"{}" if is_drained else None

    def put_move(self, name: str, move: PlannedMove | None) -> None:
        if move is None:
            self._image.moves.pop(name, None)
        else:
            self._image.moves[name] = move
        self._records[move_key(name)] = None if move is None else encode_move(move)

    def take_split_number(self) -> int:
        """The number of a new group, which none has ever had."""
        self._image.split_number = number = next_number(self._image.splits, self._image.split_number)
        self._records[SPLIT_NUMBER_KEY] = b"%d" % number
        return number

    def put_split(self, name: str, split: Split | None) -> None:
        """Change a split. Its record comes before all others: those of the groups tell what it has led to."""
        if split is None:
            self._image.splits.pop(name, None)
        else:
            self._image.splits[name] = split
        key, value = split_key(name), None if split is None else encode_split(split)
        self._records.pop(key, None)
        self._records = {key: value, **self._records}

    def put_target(self, name: str, target: SplitTarget | None) -> None:
        if target is None:
            self._image.targets.pop(name, None)
        else:
            self._image.targets[name] = target
        self._records[target_key(name)] = None if target is None else encode_target(target)

    def drop_group(self, name: str) -> None:
        """Let a group that was split off be no more."""
        self.put_split(name, None)
        if name in self._image.targets:
            self.put_target(name, None)
        if name in self._image.moves:
            self.put_move(name, None)
        if self._image.groups.pop(name, None) is not None:
            self._names = []
            self._records[group_key(name)] = None

    def take_records(self) -> tuple[ClusterRecord, ...]:
        """The records of all changes since the last call."""
        taken = tuple(self._records.items())
        self._records.clear()
        return taken
