"""Placement: which nodes replicate a group, and which of them leads it by preference.

Strategy: the first replica is the preferred leader. Leaders are spread first, then replicas, each by the node that has
the least for its weight. Groups that are slots of one family (`days`, `days-1`, ...) are spread among themselves first,
for the partitions of a topic lie in one family. A rack that a group is not in yet comes before any other, however much
its nodes have. Plans for groups that exist change as little as they can: a swap of preferred leaders moves no data, so
leaders are evened out along chains of swaps, and a replica moves only where both nodes end nearer to each other. Where
sizes are known, a large replica and a small one change places, so that counts stay as they are.

Knows nothing of sets, epochs or who is alive: it is given the nodes that may be used.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Replicas = tuple[int, ...]

EVEN_WEIGHT: Final = 1
SPACE_STEPS: Final = 4
"""Weights by disk space are coarse: a few records more on one disk must not move a group."""
EXCHANGED_BYTES_MIN: Final = 64 * 1024 * 1024
"""Replicas change places for their sizes only where these differ by this: an exchange copies both of them."""
RELIEF_MIN: Final = 0.1
"""An exchange takes at least this part away from the node that has more."""


@dataclass(frozen=True, slots=True)
class PlacementNode:
    """A node that may have replicas. `weight` is its share of them: its disk space where that is known.

    One that `takes_new` none keeps those that it has.
    """

    node: int
    rack: str | None = None
    weight: int = EVEN_WEIGHT
    takes_new: bool = True


class Placement:
    """The replicas of all groups, while a plan is being made: `groups` changes with each step."""

    def __init__(
        self, groups: Mapping[str, Replicas], nodes: Iterable[PlacementNode], sizes: Mapping[str, int] | None = None
    ) -> None:
        """`sizes` are the bytes that groups hold; one that is not in it counts as empty."""
        self.groups: dict[str, Replicas] = dict(groups)
        self._sizes = sizes or {}
        self._bytes: Counter[int] = Counter()
        self._nodes = {each.node: each for each in nodes}
        self._leaders: Counter[int] = Counter()
        self._family_leaders: Counter[tuple[str, int]] = Counter()
        self._successions: Counter[tuple[int, ...]] = Counter()  # of a leader and who takes over from it
        self._replicas: Counter[int] = Counter()
        for group, replicas in groups.items():
            self._count(group, replicas, 1)

    # ---- steps

    def place(self, group: str, replica_count: int) -> Replicas | None:
        """Give a new group its replicas, as many as there are nodes for; None without any."""
        nodes = self._free_nodes((), ())
        if not nodes:
            return None
        first = self._next_leader(group, nodes)
        followers: list[int] = []
        for _ in range(min(replica_count, len(nodes)) - 1):
            followers.append(self._next_replica((first, *followers)))
        return self.put(group, self._in_order(first, followers))

    def fill(self, group: str, replica_count: int, avoided: Collection[int] = ()) -> Replicas | None:
        """Give a group one more replica, if it has too few and there is a node for it. It is preferred last."""
        replicas = self.groups[group]
        if len(replicas) >= replica_count or not self._free_nodes(replicas, avoided):
            return None
        return self.put(group, (*replicas, self._next_replica(replicas, avoided)))

    def deal(self, groups: Iterable[str]) -> None:
        """Spread anew who is preferred as the leader of these groups, and who takes over. No replica moves."""
        dealt = {group: self.groups[group] for group in sorted(groups)}
        for group in dealt:
            self.put(group, ())
        for group, replicas in dealt.items():
            # One that is not there leads only where nobody else is.
            first = self._next_leader(group, [node for node in replicas if node in self._nodes] or replicas)
            self.put(group, self._in_order(first, [node for node in replicas if node != first]))

    def replace(self, group: str, leaving: int, avoided: Collection[int] = ()) -> Replicas | None:
        """Put another node in the place of one; None where there is no other."""
        replicas = self.groups[group]
        staying = tuple(node for node in replicas if node != leaving)
        if not self._free_nodes(replicas, avoided):
            return None
        successor = self._next_replica(staying, {*avoided, leaving})
        return self.put(group, tuple(successor if node == leaving else node for node in replicas))

    def put(self, group: str, replicas: Replicas) -> Replicas:
        """Note that a group has these replicas now."""
        self._count(group, self.groups.get(group, ()), -1)
        self._count(group, replicas, 1)
        self.groups[group] = replicas
        return replicas

    def even_replicas(self) -> bool:
        """Move one replica from a node that has too many. Returns False where that would improve nothing."""
        busiest = sorted(self._nodes, key=lambda node: (-self._replica_load(node), node))
        for giver in busiest:
            for taker in reversed(busiest):
                if self._replica_load(taker, 1) >= self._replica_load(giver):
                    break
                if not self._nodes[taker].takes_new:
                    continue
                group = self._movable(giver, taker)
                if group is not None:
                    self._hand_on(group, giver, taker)
                    return True
        return False

    def even_bytes(self) -> bool:
        """Let a large replica and a smaller one of two nodes change places. Returns False where that would not help."""
        busiest = sorted(self._nodes, key=lambda node: (-self._byte_load(node), node))
        for giver in busiest:
            for taker in reversed(busiest):
                # An exchange gives both of them a new replica.
                if self._nodes[giver].takes_new and self._nodes[taker].takes_new:
                    exchanged = self._exchangeable(giver, taker)
                    if exchanged is not None:
                        larger, smaller = exchanged
                        self._hand_on(larger, giver, taker)
                        self._hand_on(smaller, taker, giver)
                        return True
        return False

    def even_leaders(self) -> bool:
        """Let one node lead fewer groups and another one more, perhaps by others between them."""
        busiest = sorted(self._nodes, key=lambda node: (-self._leader_load(node), node))
        for giver in busiest:
            for taker in reversed(busiest):
                if self._leader_load(taker, 1) >= self._leader_load(giver):
                    break
                chain = self._chain(giver, taker)
                for group, node in chain:
                    self.put(group, with_first(self.groups[group], node))
                if chain:
                    return True
        return False

    # ---- figures

    def leaders(self, node: int) -> int:
        return self._leaders[node]

    def replicas(self, node: int) -> int:
        return self._replicas[node]

    # ---- inside

    def _count(self, group: str, replicas: Replicas, change: int) -> None:
        if replicas:
            self._leaders[replicas[0]] += change
            self._family_leaders[_family(group), replicas[0]] += change
            self._successions[replicas[:2]] += change
        for node in replicas:
            self._replicas[node] += change
            self._bytes[node] += change * self._size(group)

    def _hand_on(self, group: str, giver: int, taker: int) -> None:
        """Put one node in the place of another, as the leader, too."""
        self.put(group, tuple(taker if node == giver else node for node in self.groups[group]))

    def _size(self, group: str) -> int:
        return self._sizes.get(group, 0)

    def _next_leader(self, group: str, nodes: Iterable[int]) -> int:
        family = _family(group)

        def load(node: int) -> tuple[float, float, float, int]:
            weight = self._weight(node)
            of_family = self._family_leaders[family, node] / weight
            return of_family, self._leaders[node] / weight, self._replicas[node] / weight, node

        return min(nodes, key=load)

    def _in_order(self, first: int, followers: Iterable[int]) -> Replicas:
        """The replicas so that others take over from this leader, group by group."""
        order = sorted(followers, key=lambda node: (self._successions[first, node], self._leaders[node], node))
        return (first, *order)

    def _weight(self, node: int) -> int:
        return self._nodes[node].weight if node in self._nodes else EVEN_WEIGHT

    def _leader_load(self, node: int, more: int = 0) -> float:
        return (self._leaders[node] + more) / self._nodes[node].weight

    def _replica_load(self, node: int, more: int = 0) -> float:
        return (self._replicas[node] + more) / self._nodes[node].weight

    def _byte_load(self, node: int, more: int = 0) -> float:
        return (self._bytes[node] + more) / self._nodes[node].weight

    def _byte_peak(self, giver: int, taker: int, moved_bytes: int) -> float:
        """The greater load of two nodes after `moved_bytes` have gone from one to the other."""
        return max(self._byte_load(giver, -moved_bytes), self._byte_load(taker, moved_bytes))

    def _free_nodes(self, replicas: Replicas, avoided: Collection[int]) -> list[int]:
        return [
            node
            for node, each in self._nodes.items()
            if each.takes_new and node not in replicas and node not in avoided
        ]

    def _next_replica(self, replicas: Replicas, avoided: Collection[int] = ()) -> int:
        racks = {self._rack(node) for node in replicas}
        return min(
            self._free_nodes(replicas, avoided),
            key=lambda node: (self._rack(node) in racks, self._replica_load(node), node),
        )

    def _rack(self, node: int) -> str | int:
        """The rack of a node; one without a rack, or that is not known, is its own."""
        known = self._nodes.get(node)
        return node if known is None or known.rack is None else known.rack

    def _movable(self, giver: int, taker: int) -> str | None:
        """The group that may go from one node to the other, and leaves their bytes the most even."""
        return min(
            self._all_movable(giver, taker),
            key=lambda group: (self._byte_peak(giver, taker, self._size(group)), group),
            default=None,
        )

    def _all_movable(self, giver: int, taker: int) -> list[str]:
        """The groups that may go from one node to the other: they are in no fewer racks then."""
        found = []
        for group, replicas in self.groups.items():
            if giver in replicas and taker not in replicas:
                others = [self._rack(node) for node in replicas if node != giver]
                if self._rack(taker) not in others or self._rack(giver) in others:
                    found.append(group)
        return found

    def _exchangeable(self, giver: int, taker: int) -> tuple[str, str] | None:
        """The groups of both nodes whose exchange leaves their bytes the most even; None where that is not worth it."""
        load = self._byte_load(giver)
        mine, theirs = self._nodes[giver].weight, self._nodes[taker].weight
        wanted = (load - self._byte_load(taker)) * mine * theirs / (mine + theirs)
        small = sorted((self._size(group), group) for group in self._all_movable(taker, giver))
        best = (load * (1 - RELIEF_MIN), "", "")
        for group in self._all_movable(giver, taker):
            size = self._size(group)
            # The best partner is next to the size that would leave both with the same load.
            at = bisect_left(small, (size - wanted, ""))
            for other_size, other in small[max(0, at - 1) : at + 1]:
                if size - other_size >= EXCHANGED_BYTES_MIN:
                    best = min(best, (self._byte_peak(giver, taker, size - other_size), group, other))
        _, larger, smaller = best
        return (larger, smaller) if larger else None

    def _chain(self, giver: int, taker: int) -> list[tuple[str, int]]:
        """The shortest chain of groups with their new first replicas, from one node to the other; empty: none."""
        came_by: dict[int, tuple[int, str]] = {}
        reached = [giver]
        for node in reached:
            for group, replicas in sorted(self.groups.items()):
                if replicas[0] != node:
                    continue
                for other in replicas[1:]:
                    if other != giver and other not in came_by and other in self._nodes:
                        came_by[other] = (node, group)
                        reached.append(other)
        chain: list[tuple[str, int]] = []
        node = taker
        while node != giver and node in came_by:
            before, group = came_by[node]
            chain.append((group, node))
            node = before
        return chain


def space_weights(free_bytes: Mapping[int, int | None]) -> dict[int, int]:
    """The weights of nodes by the free space on their disks, where that is known: the emptiest has the most."""
    greatest = max((each for each in free_bytes.values() if each is not None), default=0)
    if not greatest:
        return dict.fromkeys(free_bytes, EVEN_WEIGHT)
    return {
        node: SPACE_STEPS if each is None else max(1, round(SPACE_STEPS * each / greatest))
        for node, each in free_bytes.items()
    }


def _family(group: str) -> str:
    """The name that the slots of one kind of groups share: `days` of `days-2`."""
    name, _, slot = group.rpartition("-")
    return name if slot.isdecimal() else group


def with_first(replicas: Replicas, node: int) -> Replicas:
    """The same replicas, with one of them in the first place."""
    return (node, *(each for each in replicas if each != node))


def place_groups(
    names: Iterable[str], existing: Mapping[str, Replicas], nodes: Sequence[PlacementNode], replica_count: int
) -> dict[str, Replicas]:
    """The replicas of new groups, by name; empty without a node."""
    placement = Placement(existing, nodes)
    placed = {name: placement.place(name, replica_count) for name in sorted(names)}
    return {name: replicas for name, replicas in placed.items() if replicas is not None}


def balance_plan(
    existing: Mapping[str, Replicas],
    nodes: Sequence[PlacementNode],
    changes_max: int,
    sizes: Mapping[str, int] | None = None,
) -> dict[str, Replicas]:
    """The new replicas of the groups that should change, so that nodes have as much as their weights say.

    At most `changes_max` steps are planned, so a large imbalance takes several plans. `sizes` are the bytes of groups.
    """
    placement = Placement(existing, nodes, sizes)
    steps, before = 0, -1
    # An exchange may let a group come into the rack of another one, so that replicas can be evened out further.
    while steps > before:
        before = steps
        for step in (placement.even_replicas, placement.even_bytes, placement.even_leaders):
            while steps < changes_max and step():
                steps += 1
    return {name: replicas for name, replicas in placement.groups.items() if replicas != existing[name]}
