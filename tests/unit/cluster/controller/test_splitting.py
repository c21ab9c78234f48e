"""Logs that get a group of their own: one set of records says so, and the group moves on as any other."""

import pytest
from tests.unit.cluster.controller.scene import Scene

from hutong.cluster.controller.commands import (
    ControllerCommand,
    DropGroup,
    ForgetNode,
    GroupIsLean,
    MoveGroup,
    ShowStatus,
    SplitGroup,
    SplitProgress,
)
from hutong.cluster.controller.messages import AskToYield, CommandAsked, StoreDecisions, Yielded
from hutong.cluster.records import SPLIT_PREFIX, group_key, split_key
from hutong.cluster.splits import SPLIT_GROUPS_MAX, Split, places_of
from hutong.replication.group_state import PartitionGroupState
from hutong.wire.kafka.error_codes import ErrorCode

NAME = "days-100"


@pytest.fixture
def scene() -> Scene:
    made = Scene(["days"])
    made.nodes(n1=10, n2=20, n3=30)
    made.catch_up()
    return made


def others(scene: Scene, name: str = "days") -> tuple[int, ...]:
    """The replicas of a group in another order."""
    first, *rest = scene.state(name).replicas
    return (*rest, first)


def split(scene: Scene, *log_ids: int, group: str = "days", replicas: tuple[int, ...] = ()) -> int:
    """Ask for a group of these logs; returns the code of the reply."""
    return scene.ask(SplitGroup(group, "days", log_ids, replicas or others(scene))).error


def test_the_new_group_begins_as_its_source_is(scene: Scene) -> None:
    before, wanted = scene.state("days"), others(scene)
    assert scene.ask(SplitGroup("days", "days", (7, 8), wanted)).groups == {NAME: wanted}
    source, made = scene.state("days"), scene.state(NAME)
    assert (source.epoch, source.leader, source.in_sync) == (before.epoch + 1, before.leader, before.in_sync)
    assert (made.epoch, made.leader, made.in_sync) == (source.epoch, source.leader, source.in_sync)
    assert (source.splits, made.splits) == (1, 0)
    assert scene.image.splits == {NAME: Split("days", (7, 8), before.epoch)}
    assert made.replicas == wanted
    assert not scene.image.moves


def test_its_leader_yields_first_and_then_all_is_one_set_of_records(scene: Scene) -> None:
    scene.do_yield = False
    before = scene.state("days")
    machine = scene.machine
    asked = machine.handle(CommandAsked(99, SplitGroup("days", "days", (7,), others(scene)), 0))
    assert AskToYield("days", before.epoch, before.leader) in asked
    stored = [each for each in machine.handle(Yielded("days", before.epoch, 1)) if isinstance(each, StoreDecisions)]
    (records,) = [[key for key, _ in each.records] for each in stored]
    # A node must know of the split before it takes part in the next epoch.
    assert records[0] == split_key(NAME)
    assert {group_key("days"), group_key(NAME)} <= set(records)


def test_what_is_made_is_never_written_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata keep the last record of each key: a later one would come behind the next states of the source."""
    scene.nodes(n1=10, n2=20, n3=30, n4=40)
    assert split(scene, 7, replicas=(2, 3, 4)) == ErrorCode.NONE
    written: list[bytes] = []
    apply = scene.image.apply

    def noted(key: bytes, value: bytes | None) -> PartitionGroupState | None:
        written.append(key)
        return apply(key, value)

    monkeypatch.setattr(scene.image, "apply", noted)
    scene.ask(MoveGroup(NAME, (4, 3, 2)))
    scene.ask(GroupIsLean(NAME))
    scene.catch_up()
    assert scene.state(NAME).replicas == (4, 3, 2)
    assert written
    assert not [key for key in written if key.startswith(SPLIT_PREFIX)]


def test_a_group_that_a_new_node_copies_is_made_small_first(scene: Scene) -> None:
    scene.nodes(n1=10, n2=20, n3=30, n4=40)
    before = scene.state("days").replicas
    assert split(scene, 7, replicas=(2, 3, 4)) == ErrorCode.NONE
    assert scene.state(NAME).replicas == before
    status = scene.ask(ShowStatus()).status
    assert status is not None
    assert status.splits == {NAME: SplitProgress((7,), (2, 3, 4))}
    (shown,) = (each for each in status.groups if each.name == NAME)
    assert (shown.before, shown.target) == (before, (2, 3, 4))
    scene.ask(GroupIsLean(NAME))
    scene.catch_up()
    assert scene.state(NAME).replicas == (2, 3, 4)
    assert not scene.image.targets


def test_before_it_moves_on_it_may_be_taken_back(scene: Scene) -> None:
    scene.nodes(n1=10, n2=20, n3=30, n4=40)
    before = scene.state("days").replicas
    assert split(scene, 7, replicas=(2, 3, 4)) == ErrorCode.NONE
    assert scene.ask(MoveGroup(NAME, ())).groups == {NAME: ()}
    scene.ask(GroupIsLean(NAME))
    assert scene.state(NAME).replicas == before


def test_a_split_waits_for_a_move_of_its_source(scene: Scene) -> None:
    scene.nodes(n1=10, n2=20, n3=30, n4=40)
    scene.do_yield = False
    scene.machine.handle(CommandAsked(99, SplitGroup("days", "days", (7,), others(scene)), 0))
    scene.ask(MoveGroup("days", (2, 3, 4)))
    scene.do_yield = True
    scene.wait(2_000)
    assert NAME not in scene.image.groups
    assert split(scene, 8) == ErrorCode.REASSIGNMENT_IN_PROGRESS
    # What is not made yet is given up without a trace.
    scene.ask(MoveGroup(NAME, ()))
    assert not scene.image.splits


@pytest.mark.parametrize("next_controller", [False, True])
def test_the_next_controller_goes_on(scene: Scene, next_controller: bool) -> None:
    scene.nodes(n2=20, n3=30, n1=10)
    state = scene.state("days")
    rest = {node: each for node, each in scene.live.items() if node != state.leader}
    scene.do_yield = False
    scene.feed(CommandAsked(99, SplitGroup("days", "days", (7,), others(scene)), 0))
    assert NAME not in scene.image.groups
    scene.do_yield = True
    if next_controller:
        scene.begin()
    scene.set_live(rest)
    scene.wait(2_000)
    assert scene.state(NAME).leader == scene.state("days").leader != state.leader


def test_a_log_leaves_only_the_group_that_it_is_in(scene: Scene) -> None:
    assert split(scene, 7, 8) == ErrorCode.NONE
    assert split(scene, 7) == ErrorCode.REASSIGNMENT_IN_PROGRESS
    assert split(scene, 9, group=NAME) == ErrorCode.REASSIGNMENT_IN_PROGRESS
    assert split(scene, 8, group=NAME) == ErrorCode.NONE
    assert places_of(scene.image.splits) == {7: NAME, 8: "days-101"}


@pytest.mark.parametrize("replicas", [(1, 1, 2), (1, 2), (1, 2, 9)])
def test_what_are_no_replicas_is_refused(scene: Scene, replicas: tuple[int, ...]) -> None:
    assert split(scene, 7, replicas=replicas) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert split(scene, 7, group="weeks") == ErrorCode.RESOURCE_NOT_FOUND
    assert not scene.image.splits


def test_groups_are_bounded_and_no_name_is_given_twice(scene: Scene) -> None:
    for log_id in range(SPLIT_GROUPS_MAX):
        assert split(scene, log_id) == ErrorCode.NONE
    assert split(scene, 99) == ErrorCode.POLICY_VIOLATION
    last = f"days-{99 + SPLIT_GROUPS_MAX}"
    scene.ask(DropGroup(last))
    assert last not in scene.image.groups
    scene.begin()
    scene.set_live(scene.live)
    assert split(scene, 99) == ErrorCode.NONE
    assert f"days-{100 + SPLIT_GROUPS_MAX}" in scene.image.groups


def test_a_source_is_not_dropped_before_what_was_split_off(scene: Scene) -> None:
    assert split(scene, 7, 8) == ErrorCode.NONE
    assert split(scene, 8, group=NAME) == ErrorCode.NONE
    scene.ask(DropGroup(NAME))
    assert NAME in scene.image.groups
    drops: list[ControllerCommand] = [DropGroup("days-101"), DropGroup(NAME), DropGroup("days")]
    for command in drops:
        scene.ask(command)
    assert scene.image.groups.keys() == {"days"}
    assert not scene.image.splits


def test_a_node_that_is_forgotten_is_no_target_any_more(scene: Scene) -> None:
    scene.nodes(n1=10, n2=20, n3=30, n4=40)
    assert split(scene, 7, replicas=(2, 3, 4)) == ErrorCode.NONE
    scene.nodes(n1=10, n2=20, n3=30)
    scene.ask(ForgetNode(4))
    assert not scene.image.targets
