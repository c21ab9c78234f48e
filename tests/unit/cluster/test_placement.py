"""Placement: replicas are distinct, racks and leaders are spread, plans are small and come to rest."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hutong.cluster.placement import Placement, PlacementNode, balance_plan, place_groups, space_weights

CHANGES_MAX = 1_000
counts = st.integers(1, 24)


@st.composite
def clusters(draw: st.DrawFn, *, has_racks: bool = True) -> list[PlacementNode]:
    numbers = draw(st.lists(st.integers(0, 30), min_size=1, max_size=8, unique=True))
    racks = st.sampled_from([None, "a", "b", "c"]) if has_racks else st.none()
    return [PlacementNode(number, draw(racks)) for number in numbers]


def names(count: int) -> list[str]:
    return [f"days-{number}" for number in range(count)]


def leaders(placed: dict[str, tuple[int, ...]], nodes: list[PlacementNode]) -> list[int]:
    counted = Counter(replicas[0] for replicas in placed.values())
    return [counted[each.node] for each in nodes]


def replicas_of(placed: dict[str, tuple[int, ...]], nodes: list[PlacementNode]) -> list[int]:
    counted = Counter(node for replicas in placed.values() for node in replicas)
    return [counted[each.node] for each in nodes]


def planned(existing: dict[str, tuple[int, ...]], nodes: list[PlacementNode]) -> dict[str, tuple[int, ...]]:
    return existing | balance_plan(existing, nodes, CHANGES_MAX)


def test_three_nodes_share_leaders_and_who_takes_over() -> None:
    placed = place_groups(names(6), {}, [PlacementNode(each) for each in (1, 2, 3)], 3)
    assert Counter(replicas[0] for replicas in placed.values()) == {1: 2, 2: 2, 3: 2}
    assert len({replicas[:2] for replicas in placed.values()}) == 6


def test_without_a_node_nothing_is_placed() -> None:
    assert place_groups(["days"], {}, [], 3) == {}


@given(clusters(), counts, st.integers(1, 4))
def test_replicas_are_distinct_and_in_as_many_racks_as_there_are(
    nodes: list[PlacementNode], count: int, replica_count: int
) -> None:
    placed = place_groups(names(count), {}, nodes, replica_count)
    assert len(placed) == count
    racks = {each.node: each.rack or f"own-{each.node}" for each in nodes}
    for replicas in placed.values():
        assert len(set(replicas)) == len(replicas) == min(replica_count, len(nodes))
        assert len({racks[node] for node in replicas}) == min(len(replicas), len(set(racks.values())))
    spread = leaders(placed, nodes)
    assert max(spread) - min(spread) <= 1


@given(clusters(), counts)
def test_groups_that_come_later_are_placed_as_if_they_had_come_at_once(nodes: list[PlacementNode], count: int) -> None:
    first = place_groups(names(count), {}, nodes, 3)
    more = place_groups([f"more-{number}" for number in range(count)], first, nodes, 3)
    spread = leaders(first | more, nodes)
    assert max(spread) - min(spread) <= 1


@given(clusters(), clusters(), counts, st.integers(1, 4))
def test_a_plan_comes_to_rest_and_keeps_racks_apart(
    before: list[PlacementNode], after: list[PlacementNode], count: int, replica_count: int
) -> None:
    existing = place_groups(names(count), {}, before, replica_count)
    balanced = planned(existing, after)
    assert balance_plan(balanced, after, CHANGES_MAX) == {}
    racks = {each.node: each.rack or f"own-{each.node}" for each in after}
    for name, replicas in balanced.items():
        assert len(set(replicas)) == len(replicas) == len(existing[name])
        known = {racks[node] for node in existing[name] if node in racks}
        assert len({racks.get(node, str(node)) for node in replicas}) >= len(known)


@given(clusters(has_racks=False), st.integers(1, 3), counts, st.integers(1, 3))
def test_an_empty_node_gets_its_share_and_others_give_no_more(
    nodes: list[PlacementNode], new_count: int, count: int, replica_count: int
) -> None:
    existing = place_groups(names(count), {}, nodes, replica_count)
    everybody = [*nodes, *(PlacementNode(100 + number) for number in range(new_count))]
    balanced = planned(existing, everybody)
    spread = replicas_of(balanced, everybody)
    assert max(spread) - min(spread) <= 1
    # Each replica that moved went to a node that had too few.
    moved = sum(len(set(balanced[name]) - set(existing[name])) for name in existing)
    share = -(-sum(spread) // len(everybody))
    before = replicas_of(existing, everybody)
    assert moved <= sum(max(0, share - each) for each in before)


@given(counts)
def test_leaders_are_evened_out_without_a_move(count: int) -> None:
    nodes = [PlacementNode(each) for each in (1, 2, 3)]
    balanced = planned(dict.fromkeys(names(count), (1, 2, 3)), nodes)
    spread = leaders(balanced, nodes)
    assert max(spread) - min(spread) <= 1
    assert all(set(replicas) == {1, 2, 3} for replicas in balanced.values())


def test_leaders_are_evened_out_along_a_chain() -> None:
    existing: dict[str, tuple[int, ...]] = {"a": (1, 2), "b": (1, 2), "c": (2, 3), "d": (2, 3), "e": (3, 2)}
    nodes = [PlacementNode(each) for each in (1, 2, 3)]
    assert sorted(leaders(planned(existing, nodes), nodes)) == [1, 2, 2]
    unreachable: dict[str, tuple[int, ...]] = {"a": (1, 2), "b": (1, 2), "c": (1, 2), "d": (2, 3)}
    assert max(leaders(planned(unreachable, nodes), nodes)) <= 2


def test_a_larger_disk_gets_more() -> None:
    nodes = [PlacementNode(1, weight=3_000), PlacementNode(2, weight=1_000), PlacementNode(3, weight=1_000)]
    placed = place_groups(names(10), {}, nodes, 1)
    assert replicas_of(placed, nodes) == [6, 2, 2]


def test_weights_by_free_space_are_coarse() -> None:
    assert space_weights({1: 1_000, 2: 900, 3: 500, 4: 10, 5: 0}) == {1: 4, 2: 4, 3: 2, 4: 1, 5: 1}
    assert space_weights({1: 1_000, 2: None}) == {1: 4, 2: 4}, "of an unknown disk nothing is held against it"
    assert space_weights({1: None, 2: None}) == space_weights({1: 0, 2: 0}) == {1: 1, 2: 1}


def test_a_node_that_takes_none_gets_none_and_keeps_what_it_has() -> None:
    nodes = [PlacementNode(1), PlacementNode(2, takes_new=False), PlacementNode(3), PlacementNode(4)]
    placed = place_groups(names(6), {}, nodes, 4)
    assert all(sorted(replicas) == [1, 3, 4] for replicas in placed.values())
    assert Placement({"days": (1, 3)}, nodes).fill("days", 4) == (1, 3, 4)
    assert Placement({"days": (1, 3, 4)}, nodes).replace("days", 4) is None
    existing: dict[str, tuple[int, ...]] = {"a": (1, 2), "b": (1, 2), "c": (1, 2), "d": (1, 2)}
    balanced = planned(existing, nodes)
    assert replicas_of(balanced, nodes)[1] <= 4
    gainers = {node for name, replicas in balanced.items() for node in set(replicas) - set(existing[name])}
    assert gainers == {3, 4}
    assert place_groups(["days"], {}, [PlacementNode(2, takes_new=False)], 3) == {}


GIB = 1024 * 1024 * 1024
EIGHT: dict[str, tuple[int, ...]] = {name: (1, 2) if name < "e" else (3, 4) for name in "abcdefgh"}


def held(placed: dict[str, tuple[int, ...]], sizes: dict[str, int], node: int) -> int:
    return sum(sizes.get(name, 0) for name, replicas in placed.items() if node in replicas)


def test_large_groups_and_small_ones_change_places() -> None:
    nodes = [PlacementNode(each) for each in (1, 2, 3, 4)]
    sizes = {name: GIB if name < "e" else 0 for name in EIGHT}
    balanced = EIGHT | balance_plan(EIGHT, nodes, CHANGES_MAX, sizes)
    assert [held(balanced, sizes, each.node) for each in nodes] == [2 * GIB] * 4
    assert replicas_of(balanced, nodes) == [4] * 4
    assert leaders(balanced, nodes) == [2] * 4


def test_a_difference_that_copies_would_not_be_worth_moves_nothing() -> None:
    nodes = [PlacementNode(1), PlacementNode(2)]
    existing: dict[str, tuple[int, ...]] = {"a": (1,), "b": (1,), "c": (2,), "d": (2,)}
    small = {"a": 1_000_000, "b": 1_000_000}
    assert balance_plan(existing, nodes, CHANGES_MAX, small) == {}
    # By an exchange node 1 would have 19 GiB of 20 still.
    alike = {"a": 10 * GIB, "b": 10 * GIB, "c": 9 * GIB, "d": 9 * GIB}
    assert balance_plan(existing, nodes, CHANGES_MAX, alike) == {}


def test_an_exchange_gives_nothing_to_a_node_that_takes_none() -> None:
    existing: dict[str, tuple[int, ...]] = {"a": (1,), "b": (1,), "c": (2,), "d": (2,)}
    sizes = {"a": GIB, "b": GIB}
    for short in (1, 2):
        nodes = [PlacementNode(each, takes_new=each != short) for each in (1, 2)]
        assert balance_plan(existing, nodes, CHANGES_MAX, sizes) == {}


def test_the_group_that_moves_is_the_one_that_leaves_nodes_the_most_even() -> None:
    existing: dict[str, tuple[int, ...]] = {"a": (1,), "b": (1,), "c": (1,)}
    sizes = {"a": 4 * GIB, "b": GIB, "c": 3 * GIB}
    assert balance_plan(existing, [PlacementNode(1), PlacementNode(2)], CHANGES_MAX, sizes) == {"a": (2,)}


@given(clusters(), clusters(), st.lists(st.integers(0, 40), min_size=1, max_size=16), st.integers(1, 3))
def test_a_plan_by_sizes_comes_to_rest_and_keeps_counts_and_racks(
    before: list[PlacementNode], after: list[PlacementNode], gibibytes: list[int], replica_count: int
) -> None:
    existing = place_groups(names(len(gibibytes)), {}, before, replica_count)
    sizes = {name: size * GIB for name, size in zip(names(len(gibibytes)), gibibytes, strict=True)}
    balanced = existing | balance_plan(existing, after, CHANGES_MAX, sizes)
    assert balance_plan(balanced, after, CHANGES_MAX, sizes) == {}
    if not any(each.rack for each in after):
        assert sorted(replicas_of(balanced, after)) == sorted(replicas_of(planned(existing, after), after))
    racks = {each.node: each.rack or f"own-{each.node}" for each in after}
    for name, replicas in balanced.items():
        assert len(set(replicas)) == len(existing[name])
        known = [racks.get(node, f"gone-{node}") for node in replicas]
        assert len(set(known)) >= len({racks.get(node, f"gone-{node}") for node in existing[name]})


def test_a_plan_has_a_bound() -> None:
    existing = dict.fromkeys(names(20), (1,))
    nodes = [PlacementNode(1), PlacementNode(2)]
    assert len(balance_plan(existing, nodes, 3)) == 3


def test_a_node_is_replaced_by_one_of_a_rack_that_the_group_is_not_in() -> None:
    nodes = [PlacementNode(1, "a"), PlacementNode(2, "b"), PlacementNode(4, "a"), PlacementNode(5, "c")]
    placement = Placement({"days": (3, 1, 2)}, nodes)
    assert placement.replace("days", 3) == (5, 1, 2)
    assert placement.replace("days", 1, avoided={4}) is None
    assert placement.replace("days", 5) == (4, 1, 2)


def test_leaders_of_filled_groups_are_dealt_over_all_their_replicas() -> None:
    """A cluster is founded by one node, and the others come one after the other."""
    groups = [*names(6), "compacted", "offsets", "transactions"]
    placement = Placement(dict.fromkeys(groups, (1,)), [PlacementNode(each) for each in (1, 2, 3)])
    for name in groups:
        while placement.fill(name, 3) is not None:
            pass
    placement.deal(groups)
    assert [placement.leaders(node) for node in (1, 2, 3)] == [3, 3, 3]
    assert [placement.replicas(node) for node in (1, 2, 3)] == [9, 9, 9]
    assert len({placement.groups[name][:2] for name in names(6)}) == 6
    assert placement.fill("days-0", 3) is None


def test_slots_of_one_family_are_led_by_different_nodes() -> None:
    families = [f"{family}{slot}" for family in ("compacted", "days", "hours", "long") for slot in ("", "-1", "-2")]
    nodes = [PlacementNode(each) for each in (1, 2, 3)]
    placed = place_groups([*families, "offsets"], {}, nodes, 3)
    for family in ("compacted", "days", "hours", "long"):
        assert {placed[name][0] for name in (family, f"{family}-1", f"{family}-2")} == {1, 2, 3}


def test_a_node_that_is_not_there_is_preferred_where_nobody_else_is() -> None:
    placement = Placement({"days": (9, 1), "hours": (9,)}, [PlacementNode(1)])
    placement.deal(["days", "hours"])
    assert placement.groups == {"days": (1, 9), "hours": (9,)}
