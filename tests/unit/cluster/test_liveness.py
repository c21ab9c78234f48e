"""Who is alive: registrations, links, and what counts when they disagree."""

from hutong.cluster.coordinator.port import SessionState
from hutong.cluster.liveness import UNREACHED_MS, Liveness
from hutong.cluster.nodes import ClusterNode, HostPort, NodeDescription

SESSION_MS = 4_000


def node(number: int, incarnation: int = 1, unlinked: tuple[int, ...] = ()) -> ClusterNode:
    description = NodeDescription(HostPort("127.0.0.1", 9_000 + number), {}, unlinked=unlinked)
    return ClusterNode(number, incarnation, description)


def liveness_of(*others: ClusterNode) -> Liveness:
    """Of node 1, whose session has been there for long."""
    liveness = Liveness(node(1))
    liveness.session_changed(SessionState.CONNECTED, 0, SESSION_MS)
    liveness.members_changed({each.node: each for each in (node(1), *others)})
    return liveness


def test_who_is_registered_is_alive() -> None:
    assert list(liveness_of(node(3), node(2)).live(0)) == [1, 2, 3]


def test_a_node_is_alive_to_itself() -> None:
    liveness = liveness_of(node(2))
    liveness.members_changed({2: node(2)})

    assert list(liveness.live(0)) == [1, 2]


def test_a_registration_that_goes_is_a_death_although_the_link_is_open() -> None:
    """A process that was stopped keeps its connections."""
    liveness = liveness_of(node(2))
    liveness.link_opened(2, 1)
    liveness.members_changed({1: node(1)})

    assert list(liveness.live(10_000)) == [1]


def test_a_process_that_is_gone_is_dead_before_its_registration_goes() -> None:
    liveness = liveness_of(node(2), node(3))
    liveness.link_opened(2, 1)
    liveness.link_closed(2, 0, is_process_gone=True)

    assert list(liveness.live(0)) == [1, 3]


def test_a_link_that_only_ended_says_nothing() -> None:
    liveness = liveness_of(node(2))
    liveness.link_opened(2, 1)
    liveness.link_closed(2, 0, is_process_gone=False)

    assert list(liveness.live(0)) == [1, 2]


def test_the_next_life_of_a_process_that_was_gone_is_alive() -> None:
    liveness = liveness_of(node(2))
    liveness.link_closed(2, 0, is_process_gone=True)
    liveness.members_changed({1: node(1), 2: node(2, incarnation=2)})

    assert liveness.live(0)[2].incarnation == 2


def test_a_process_that_seemed_gone_is_alive_once_it_is_linked() -> None:
    liveness = liveness_of(node(2))
    liveness.link_closed(2, 0, is_process_gone=True)
    liveness.link_opened(2, 1)

    assert list(liveness.live(0)) == [1, 2]


def test_a_node_whose_link_has_just_ended_is_in_doubt_for_a_moment() -> None:
    liveness = liveness_of(node(2), node(3))
    liveness.link_opened(2, 1)
    liveness.link_closed(2, 1_000, is_process_gone=False)
    over_ms = liveness.doubted_until_ms()

    assert over_ms is not None
    assert liveness.doubted(over_ms - 1) == {2}
    assert list(liveness.live(over_ms - 1)) == [1, 2, 3], "no decision rests on a doubt"
    assert liveness.doubted(over_ms) == frozenset()
    assert liveness.doubted_until_ms() is None


def test_a_link_that_comes_back_ends_the_doubt() -> None:
    liveness = liveness_of(node(2))
    liveness.link_opened(2, 1)
    liveness.link_closed(2, 1_000, is_process_gone=False)
    liveness.link_opened(2, 1)

    assert liveness.doubted(1_000) == frozenset()


def test_a_node_without_a_link_is_out_of_reach_after_a_while() -> None:
    liveness = liveness_of(node(2), node(3))
    liveness.link_opened(2, 1)
    liveness.link_opened(3, 1)
    liveness.link_closed(3, 0, is_process_gone=False)
    assert not liveness.unreached(0)
    assert liveness.unreached_from_ms(0) == UNREACHED_MS
    assert not liveness.unreached(UNREACHED_MS - 1)
    assert liveness.unreached(UNREACHED_MS) == {3}
    assert liveness.unreached_from_ms(UNREACHED_MS) is None
    assert list(liveness.live(UNREACHED_MS)) == [1, 2, 3]

    liveness.link_opened(3, 1)
    assert not liveness.unreached(2 * UNREACHED_MS)


def test_a_node_that_reaches_no_majority_says_nothing_of_others() -> None:
    liveness = liveness_of(node(2), node(3))
    liveness.unreached(0)

    assert not liveness.unreached(UNREACHED_MS)


def test_links_count_while_nodes_register_anew_after_an_outage() -> None:
    liveness = liveness_of(node(2), node(3))
    liveness.link_opened(2, 1)
    liveness.session_changed(SessionState.LOST, 50_000, SESSION_MS)
    liveness.session_changed(SessionState.CONNECTED, 60_000, SESSION_MS)
    liveness.members_changed({1: node(1)})

    assert list(liveness.live(60_001)) == [1, 2], "node 3 is neither registered nor linked"
    assert list(liveness.live(liveness.trusted_from_ms)) == [1]


def test_another_life_is_not_taken_for_the_one_that_was_registered() -> None:
    liveness = liveness_of(node(2))
    liveness.session_changed(SessionState.LOST, 50_000, SESSION_MS)
    liveness.link_opened(2, 7)
    liveness.members_changed({1: node(1)})

    assert list(liveness.live(50_000)) == [1]


def test_a_node_without_links_says_so_after_a_while_and_is_out_of_reach_when_the_others_are_not() -> None:
    liveness = liveness_of(node(2, unlinked=(1,)), node(3, unlinked=(1,)))
    liveness.unreached(0)
    assert liveness.unlinked(UNREACHED_MS - 1) == ()
    assert not liveness.out_of_reach(UNREACHED_MS - 1)
    assert liveness.unlinked(UNREACHED_MS) == (2, 3)
    assert liveness.out_of_reach(UNREACHED_MS) == {1}

    liveness.link_opened(2, 1)
    liveness.unreached(UNREACHED_MS)
    assert liveness.unlinked(UNREACHED_MS) == (3,)
    assert not liveness.out_of_reach(UNREACHED_MS)


def test_a_process_that_is_gone_is_no_missing_link() -> None:
    liveness = liveness_of(node(2), node(3))
    liveness.link_opened(2, 1)
    liveness.link_closed(3, 0, is_process_gone=True)
    liveness.unreached(0)
    assert liveness.unlinked(UNREACHED_MS) == ()
