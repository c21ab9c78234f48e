"""Lays out a directed acyclic graph in rows: a node is below the nodes that it waits for.

Strategy: rows by the longest way down, none wider than asked for; an edge over several rows passes through a joint in
each row between, shared by all edges from the same node; a few sweeps order each row by the mean place of adjacent
nodes and then move its nodes towards it. Deterministic.

Knows nothing of stages, text or SVG: nodes are numbers, and all have the same width.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

SWEEPS = 8
JOINT_WIDTH = 14
"""The width of an edge that passes a row."""
STRAIGHTNESS = 8
"""The weight of a bend inside a long edge, relative to one at a node."""


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    """A node in a row, or the place in that row where edges that come from `node` pass."""

    node: int
    row: int


@dataclass(slots=True)
class Layout:
    """`centres` are the horizontal centres of spots, from 0 to `width`; `rows` are the spots of each row in order."""

    rows: list[list[Spot]]
    centres: dict[Spot, float]
    width: float
    home: dict[int, int]
    links: list[tuple[Spot, Spot]] = field(default_factory=list)

    def is_joint(self, spot: Spot) -> bool:
        return self.home[spot.node] != spot.row


def arrange(parents: Mapping[int, Iterable[int]], node_width: float, gap: float, row_node_count_max: int) -> Layout:
    """`parents` has every node as a key; a parent that is no key, the node itself or part of a circle is left out."""
    edges = _without_circles(parents)
    home = _rows_of(edges, row_node_count_max)
    links = _links(edges, home)
    rows = _ordered(home, links)
    centres, width = _placed(rows, links, home, node_width, gap)
    return Layout(rows, centres, width, home, links)


def _without_circles(parents: Mapping[int, Iterable[int]]) -> dict[int, list[int]]:
    """Children last. An edge to a node that is not finished yet belongs to a circle and is dropped."""
    wanted = {node: sorted({parent for parent in parents[node] if parent in parents}) for node in sorted(parents)}
    finished: dict[int, list[int]] = {}
    entered: set[int] = set()
    for start in wanted:
        open_ends = [start]
        while open_ends:
            node = open_ends[-1]
            # Visited already, as the parent of an earlier node.
            if node in finished:
                open_ends.pop()
                continue
            entered.add(node)
            ahead = [parent for parent in wanted[node] if parent not in entered]
            if ahead:
                open_ends.append(ahead[0])
            else:
                finished[node] = [parent for parent in wanted[node] if parent in finished]
                open_ends.pop()
    return finished


def _rows_of(edges: Mapping[int, Sequence[int]], row_node_count_max: int) -> dict[int, int]:
    home: dict[int, int] = {}
    counts: dict[int, int] = {}
    for node, ahead in edges.items():
        row = max((home[parent] + 1 for parent in ahead), default=0)
        # A full row: the node moves down, and its children with it.
        while counts.get(row, 0) >= row_node_count_max:
            row += 1
        home[node] = row
        counts[row] = counts.get(row, 0) + 1
    return home


def _links(edges: Mapping[int, Sequence[int]], home: Mapping[int, int]) -> list[tuple[Spot, Spot]]:
    """Edges cut at every row, each piece once."""
    pieces: dict[tuple[Spot, Spot], None] = {}
    for node, ahead in edges.items():
        for parent in ahead:
            way = [Spot(parent, row) for row in range(home[parent], home[node])]
            for upper, lower in zip(way, [*way[1:], Spot(node, home[node])], strict=True):
                pieces[upper, lower] = None
    return list(pieces)


def _ordered(home: Mapping[int, int], links: Sequence[tuple[Spot, Spot]]) -> list[list[Spot]]:
    rows: list[list[Spot]] = [[] for _ in range(max(home.values(), default=-1) + 1)]
    spots = dict.fromkeys([Spot(node, row) for node, row in sorted(home.items())])
    spots |= dict.fromkeys(spot for link in links for spot in link)
    for spot in spots:
        rows[spot.row].append(spot)
    above, below = _neighbours(links)
    for sweep in range(SWEEPS):
        neighbours = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else reversed(rows):
            places = {spot: place for level in rows for place, spot in enumerate(level)}
            row.sort(key=lambda spot: _mean([places[near] for near in neighbours.get(spot, ())], places[spot]))
    return rows


def _placed(
    rows: Sequence[list[Spot]],
    links: Sequence[tuple[Spot, Spot]],
    home: Mapping[int, int],
    node_width: float,
    gap: float,
) -> tuple[dict[Spot, float], float]:
    def half(spot: Spot) -> float:
        return (node_width if home[spot.node] == spot.row else JOINT_WIDTH) / 2

    def packed(row: Sequence[Spot], wishes: Mapping[Spot, float]) -> None:
        found: list[float] = []
        for index, spot in enumerate(row):
            least = found[-1] + half(row[index - 1]) + gap + half(spot) if found else float("-inf")
            found.append(max(wishes[spot], least))
        pushed = _mean([place - wishes[spot] for place, spot in zip(found, row, strict=True)], 0.0)
        centres.update({spot: place - pushed for spot, place in zip(row, found, strict=True)})

    def pulled(spot: Spot, neighbours: Sequence[Spot]) -> float:
        """Return the place that its adjacent nodes favour; the next piece of the same long edge weighs most."""
        places: list[float] = []
        for near in neighbours:
            inside = home[spot.node] != spot.row and near.node == spot.node
            places += [centres[near]] * (STRAIGHTNESS if inside and home[near.node] != near.row else 1)
        return _mean(places, centres[spot])

    centres: dict[Spot, float] = {}
    for row in rows:
        packed(row, dict.fromkeys(row, 0.0))
    above, below = _neighbours(links)
    for sweep in range(SWEEPS):
        neighbours = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else reversed(rows):
            packed(row, {spot: pulled(spot, neighbours.get(spot, ())) for spot in row})
    _close_up(rows, links, centres, half, gap)
    left = min((centre - half(spot) for spot, centre in centres.items()), default=0.0)
    right = max((centre + half(spot) for spot, centre in centres.items()), default=0.0)
    return {spot: centre - left for spot, centre in centres.items()}, right - left


def _close_up(
    rows: Sequence[list[Spot]],
    links: Iterable[tuple[Spot, Spot]],
    centres: dict[Spot, float],
    half: Callable[[Spot], float],
    gap: float,
) -> None:
    """Move parts of the graph that hang together as near to those left of them as they can stand."""
    reached: dict[int, float] = {}
    for part in sorted(_parts(rows, links), key=lambda part: (min(centres[spot] for spot in part), min(part).node)):
        lefts = [(spot.row, centres[spot] - half(spot)) for spot in part]
        shift = max((reached[row] + gap - left for row, left in lefts if row in reached), default=None)
        # The first part of all begins at the left edge.
        if shift is None:
            shift = -min(left for _, left in lefts)
        for spot in part:
            centres[spot] += shift
            reached[spot.row] = max(reached.get(spot.row, float("-inf")), centres[spot] + half(spot))
    for row in rows:
        row.sort(key=lambda spot: centres[spot])


def _parts(rows: Iterable[Iterable[Spot]], links: Iterable[tuple[Spot, Spot]]) -> list[list[Spot]]:
    above, below = _neighbours(links)
    parts: list[list[Spot]] = []
    seen: set[Spot] = set()
    for start in (spot for row in rows for spot in row):
        if start in seen:
            continue
        part, open_ends = [], [start]
        seen.add(start)
        while open_ends:
            spot = open_ends.pop()
            part.append(spot)
            near = {*above.get(spot, ()), *below.get(spot, ())} - seen
            seen |= near
            open_ends += sorted(near)
        parts.append(part)
    return parts


def _neighbours(links: Iterable[tuple[Spot, Spot]]) -> tuple[dict[Spot, list[Spot]], dict[Spot, list[Spot]]]:
    above: dict[Spot, list[Spot]] = {}
    below: dict[Spot, list[Spot]] = {}
    for upper, lower in links:
        above.setdefault(lower, []).append(upper)
        below.setdefault(upper, []).append(lower)
    return above, below


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
