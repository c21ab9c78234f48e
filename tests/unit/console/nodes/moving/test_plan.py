"""Plans of moves and drains: what goes along, what is copied, what stays."""

from dataclasses import replace
from typing import Any

import pytest

from hutong.cluster.controller.commands import ControllerStatus, GroupProgress, SplitProgress
from hutong.console.nodes.cluster import PlacedPartition, SeenBroker, SeenCluster
from hutong.console.nodes.moving.plan import MOVED_MAX, MovePlan, checked_replicas, plan_drain, plan_leaders, plan_move
from hutong.console.nodes.moving.under_way import hutong_moves, kafka_moves
from hutong.console.nodes.moving.units import MoveUnit, units_of_groups, units_of_partitions
from hutong.web.answers import WebRefusal

ORDERS = [("orders", 0), ("orders", 1)]
DAYS = MoveUnit("days", (*ORDERS, ("users", 0)), (1, 2), size_bytes=100)
HOURS = MoveUnit("hours", (("clicks", 0),), (2, 3), size_bytes=7)
RACKS = {1: "a", 2: "a", 3: "b", 4: "b"}


def single(number: int, *replicas: int, target: tuple[int, ...] | None = None, size: int | None = 10) -> MoveUnit:
    return MoveUnit(None, (("orders", number),), replicas, target, size)


def planned(units: list[MoveUnit], asked: list[tuple[str, int]], *replicas: int, **how: Any) -> MovePlan:
    whole = {"sizes": {("orders", 0): 30, ("orders", 1): 40}, "together": True, "spreads": False, **how}
    return plan_move(units, set(asked), replicas, **whole)


def targets(plan: MovePlan) -> dict[str, tuple[int, ...]]:
    return {step.unit.name: step.target for step in plan.steps}


def test_a_group_moves_with_all_its_partitions() -> None:
    plan = planned([DAYS, HOURS], [("orders", 0)], 2, 3)
    assert targets(plan) == {"days": (2, 3)}
    told = plan.told()
    assert (told["moved"], told["along"], told["copied_bytes"]) == (3, 2, 100)
    assert told["steps"][0]["topics"] == ["orders", "users"]
    assert told["steps"][0]["splits"] is False


def test_some_of_a_group_leave_it() -> None:
    plan = planned([DAYS, HOURS], ORDERS, 3, 4, together=False)
    (step,) = plan.steps
    assert step.splits
    assert step.asked == tuple(ORDERS)
    assert (plan.told()["along"], plan.copied_bytes) == (0, 140), "two new replicas of 70 bytes"
    alone = planned([HOURS], [("clicks", 0)], 1, 2, together=False)
    assert not alone.steps[0].splits, "a group of one partition moves whole"


def test_another_order_copies_nothing() -> None:
    assert planned([DAYS], ORDERS, 2, 1).copied_bytes == 0


def test_a_move_to_the_same_place_is_none() -> None:
    assert planned([DAYS], ORDERS, 1, 2).steps == ()


def test_bytes_that_nobody_tells_are_not_known() -> None:
    assert planned([single(0, 1, size=None)], ORDERS[:1], 2).copied_bytes is None


def test_a_group_moves_with_a_throttle_and_gets_another() -> None:
    (step,) = planned([DAYS], ORDERS, 2, 3, bytes_per_second=1_000).steps
    assert (step.told()["bytes_per_second"], step.is_pace) == (1_000, False)
    moving = replace(DAYS, target=(2, 3), bytes_per_second=1_000)
    assert planned([moving], ORDERS, 2, 3, bytes_per_second=1_000).steps == ()
    for pace in (0, 5_000):
        plan = planned([moving], ORDERS, 2, 3, bytes_per_second=pace)
        (step,) = plan.steps
        assert (step.bytes_per_second, step.is_pace, plan.copied_bytes) == (pace, True, 0)
    marks = {planned([DAYS], ORDERS, 2, 3, bytes_per_second=pace).mark for pace in (0, 1, 2)}
    assert len(marks) == 3


@pytest.mark.parametrize(
    ("unit", "together"), [(single(0, 1, 2), True), (DAYS, False)], ids=["of Kafka", "a part of a group"]
)
def test_a_partition_that_moves_alone_has_no_throttle(unit: MoveUnit, together: bool) -> None:
    with pytest.raises(WebRefusal) as raised:
        planned([unit], ORDERS[:1], 2, 3, together=together, bytes_per_second=1)
    assert (raised.value.status, "throttle" in raised.value.message) == (409, True)


def test_the_leaders_of_a_topic_take_turns() -> None:
    units = [single(number, 1, 2, 3) for number in range(4)]
    asked = [("orders", number) for number in range(4)]
    assert [*targets(planned(units, asked, 2, 3, 4, spreads=True)).values()] == [
        (2, 3, 4),
        (3, 4, 2),
        (4, 2, 3),
        (2, 3, 4),
    ]


@pytest.mark.parametrize(
    ("units", "replicas", "together"),
    [
        ([single(0, 1, 2, target=(2, 3))], (3, 4), True),
        ([MoveUnit("days", (*ORDERS, ("users", 0)), (1, 2), (2, 3))], (3, 4), False),
        ([DAYS], (3,), True),
        ([single(number, 1) for number in range(MOVED_MAX + 1)], (2,), True),
    ],
    ids=["on its way", "its group is on its way", "fewer replicas of a group", "too many"],
)
def test_what_cannot_be_planned(units: list[MoveUnit], replicas: tuple[int, ...], together: bool) -> None:
    asked = [place for unit in units for place in unit.members if place[0] == "orders"]
    with pytest.raises(WebRefusal) as raised:
        planned(units, asked, *replicas, together=together)
    assert raised.value.status == 409


@pytest.mark.parametrize("replicas", [[], [1, 1], [9], [-1], [*range(100)]])
def test_replicas_that_are_none(replicas: list[int]) -> None:
    with pytest.raises(WebRefusal) as raised:
        checked_replicas(replicas, {1, 2, 3})
    assert raised.value.status == 400


def test_the_mark_changes_with_the_cluster() -> None:
    seen = planned([DAYS], ORDERS, 2, 3).mark
    assert planned([DAYS], ORDERS, 2, 3).mark == seen
    moved = MoveUnit("days", DAYS.members, (1, 3), size_bytes=100)
    assert planned([moved], ORDERS, 2, 3).mark != seen
    assert planned([DAYS], ORDERS, 3, 2).mark != seen


def test_a_drain_prefers_another_rack_and_the_emptiest_broker() -> None:
    units = [single(0, 1, 2), single(1, 1, 3), single(2, 4, 1), single(3, 2, 3)]
    plan = plan_drain(units, RACKS, 1)
    assert targets(plan) == {"orders/0": (4, 2), "orders/1": (2, 3), "orders/2": (4, 2)}
    assert plan.copied_bytes == 30


def test_a_drain_leaves_what_nobody_can_take() -> None:
    plan = plan_drain([single(0, 1, 2), single(1, 1)], {2: None}, 1)
    assert targets(plan) == {"orders/1": (2,)}
    assert plan.told()["staying"] == ("orders/0",)
    many = plan_drain([single(number, 1) for number in range(MOVED_MAX + 5)], {2: None}, 1)
    assert (len(many.steps), many.is_cut) == (MOVED_MAX, True)


def test_leaderships_leave_by_another_order() -> None:
    units = [single(0, 1, 2, 3), single(1, 1, 3, 2), single(2, 2, 1), single(3, 1), single(4, 1, 9)]
    plan = plan_leaders(units, {1, 2, 3}, 1)
    assert targets(plan) == {"orders/0": (3, 2, 1), "orders/1": (2, 3, 1)}
    assert plan.staying == ("orders/3", "orders/4")
    assert plan.copied_bytes == 0


def group(name: str, **facts: Any) -> GroupProgress:
    return GroupProgress(name, 1, 1, 1, (1, 2), (1, 2), (), 2, **facts)


def test_groups_of_hutong_are_units_with_their_partitions() -> None:
    pace = {"copied_bytes_per_second_max": 9}
    moving = group("days", target=(2, 3), before=(1, 2), stream_bytes=50, lags={3: 20}, held_bytes=40, **pace)
    splits = {"days-100": SplitProgress((7, 8), (3,))}
    status = ControllerStatus((), (moving, group("hours"), group("metadata")), splits)
    units = units_of_groups(status, {"days": {"orders": [0, 1]}, "metadata": {"x": [0]}})
    assert [(unit.name, unit.members, unit.replicas, unit.target) for unit in units] == [
        ("days", tuple(ORDERS), (1, 2), (2, 3)),
        ("hours", (), (1, 2), None),
    ]
    days, leaving = hutong_moves(status, units)
    assert (days["before"], days["target"], days["copied_bytes"], days["whole_bytes"]) == ((1, 2), (2, 3), 30, 50)
    assert (units[0].bytes_per_second, days["bytes_per_second"], leaving["bytes_per_second"]) == (9, 9, None)
    assert (leaving["name"], leaving["partitions"], leaving["target"]) == ("days-100", 2, (3,))


def test_partitions_of_kafka_are_units_of_their_own() -> None:
    placed = [PlacedPartition("orders", 0, 1, (1, 2), (1, 2)), PlacedPartition("orders", 1, 2, (2, 1), (2, 1))]
    units = units_of_partitions(placed, {("orders", 1): (2, 3)}, {("orders", 0): 5})
    assert [(unit.name, unit.target, unit.size_bytes) for unit in units] == [
        ("orders/0", None, 5),
        ("orders/1", (2, 3), None),
    ]
    cluster = SeenCluster("c", 1, (SeenBroker(1, "h", 1, None),), ("orders",), tuple(placed))
    held = {(2, ("orders", 1)): 100, (3, ("orders", 1)): 60}
    (move,) = kafka_moves([(("orders", 1), (2, 1), (2, 3))], cluster, held)
    assert (move["topic"], move["partition"], move["copied_bytes"], move["whole_bytes"]) == ("orders", 1, 60, 100)
