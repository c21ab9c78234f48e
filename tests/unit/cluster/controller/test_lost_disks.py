"""A node that comes back with another disk than the metadata log knows, as transcripts of the controller."""

from tests.unit.cluster.controller.scene import Scene

from hutong.cluster.controller.commands import ElectUnclean, ForgetNode
from hutong.cluster.controller.messages import LiveNode
from hutong.replication.group_state import NO_LEADER
from hutong.wire.kafka.error_codes import ErrorCode

OLD, NEW = 1_000, 2_000  # numbers of disks


def node(number: int, life: int = 0, disk: int | None = OLD) -> LiveNode:
    return LiveNode(life or 10 * number, origin=None if disk is None else disk + number)


def founded(**settings: int) -> Scene:
    scene = Scene(("days",), **settings)
    scene.set_live({number: node(number) for number in (1, 2, 3)})
    return scene


def members(scene: Scene) -> tuple[int, set[int], set[int]]:
    state = scene.state("days")
    return state.leader, set(state.in_sync), set(state.eligible)


def test_the_first_look_of_a_new_controller_takes_another_disk_out_of_the_set() -> None:
    """Nobody has seen that the node was gone: it lost its disk and came back between two controllers."""
    scene = founded()
    scene.begin()
    scene.set_live({1: node(1), 2: node(2, 21, NEW), 3: node(3)})
    assert members(scene) == (1, {1, 3}, set())
    assert scene.image.nodes[2].origin == NEW + 2
    # From now on this disk is the one that is known.
    scene.propose("days", [2, 3])
    scene.begin()
    scene.set_live({1: node(1), 2: node(2, 21, NEW), 3: node(3)})
    assert members(scene) == (1, {1, 2, 3}, set())


def test_the_same_disk_in_another_life_stays_a_member() -> None:
    scene = founded()
    scene.begin()
    scene.set_live({1: node(1), 2: node(2, 21), 3: node(3)})
    assert members(scene) == (1, {1, 2, 3}, set())


def test_a_version_that_does_not_say_which_disk_it_has_is_taken_for_the_known_one() -> None:
    scene = founded()
    scene.begin()
    scene.set_live({1: node(1), 2: node(2, 21, None), 3: node(3)})
    assert members(scene) == (1, {1, 2, 3}, set())
    assert scene.image.nodes[2].origin == OLD + 2


def test_another_disk_is_not_elected_where_it_had_left_a_set_that_was_too_small() -> None:
    scene = founded()
    scene.set_live({1: node(1)})
    assert members(scene) == (1, {1}, {2, 3})
    scene.set_live({})
    scene.set_live({2: node(2, 21, NEW)})
    assert members(scene) == (NO_LEADER, {1}, {3})
    scene.set_live({2: node(2, 21, NEW), 3: node(3, 31)})
    assert members(scene) == (3, {3}, {1})
    scene.propose("days", [2])
    assert members(scene) == (3, {2, 3}, set())


def test_another_disk_is_not_elected_where_the_lost_one_was_the_only_member() -> None:
    scene = founded()
    scene.set_live({1: node(1)})
    scene.set_live({})
    again = {1: node(1, 11, NEW)}
    scene.set_live(again)
    assert members(scene) == (NO_LEADER, {1}, {2, 3})
    # Also by the next controller, and in the node's next life.
    scene.begin()
    again = {1: node(1, 12, NEW)}
    scene.set_live(again)
    assert members(scene) == (NO_LEADER, {1}, {2, 3})
    scene.set_live({**again, 2: node(2, 21)})
    assert members(scene) == (2, {2}, {3})
    assert scene.image.nodes[1].lost == ()
    scene.propose("days", [1])
    assert members(scene) == (2, {1, 2}, set())


def test_an_operator_may_let_another_disk_lead_what_nobody_else_has() -> None:
    scene = founded(replicas=1)
    (leader,) = scene.state("days").replicas
    lives = {number: node(number) for number in (1, 2, 3)}
    scene.set_live({**lives, leader: node(leader, 99, NEW)})
    assert members(scene) == (NO_LEADER, {leader}, set())
    assert scene.ask(ElectUnclean("days", leader)).error == ErrorCode.NONE
    assert members(scene) == (leader, {leader}, set())
    assert scene.image.nodes[leader].lost == ()


def test_a_forgotten_node_is_taken_in_as_a_new_one() -> None:
    scene = founded()
    scene.set_live({1: node(1), 3: node(3)})
    assert scene.ask(ForgetNode(2)).error == ErrorCode.NONE
    assert 2 not in scene.state("days").replicas
    scene.set_live({1: node(1), 2: node(2, 21), 3: node(3)})
    state = scene.state("days")
    assert 2 in state.replicas
    assert 2 not in state.in_sync | state.eligible
