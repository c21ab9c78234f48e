"""Whose share a fetch is read from: by its connection, by what connections have in common, or the client's own."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from hutong.broker.fetch.actors import GROUPS_OF_READER_MAX, Actor, MemberConnections, ReadingClient

BILLING = ReadingClient("User:billing", "app", "10.0.0.1")
STRANGER = ReadingClient("User:mallory", "app", "10.0.0.1")


def reads(**topics: str) -> Callable[[str, str], bool]:
    """Groups and the topics that each reads, with spaces between."""
    return lambda group_id, topic: topic in topics.get(group_id, "").split()


def test_a_fetch_on_the_connection_of_a_member_is_its_groups() -> None:
    members = MemberConnections()
    members.note(1, BILLING, "a")
    members.note(2, BILLING, "b")
    both = reads(a="t", b="t")
    assert members.actor_of(1, BILLING, "t", both) == Actor("t", ("a",))
    assert members.actor_of(2, BILLING, "t", both) == Actor("t", ("b",))


def test_a_fetch_on_another_connection_of_the_client_is_its_groups() -> None:
    members = MemberConnections()
    members.note(1, BILLING, "a")
    assert members.actor_of(7, BILLING, "t", reads(a="t")) == Actor("t", ("a",))


def test_a_group_that_does_not_read_the_topic_is_not_the_actor() -> None:
    members = MemberConnections()
    members.note(1, BILLING, "a")
    members.note(2, BILLING, "b")
    assert members.actor_of(7, BILLING, "u", reads(a="t", b="t u")) == Actor("u", ("b",))
    assert members.actor_of(1, BILLING, "u", reads(a="t", b="t u")) == Actor("u", ("b",))


def test_two_groups_of_one_reader_are_one_joint_actor() -> None:
    members = MemberConnections()
    members.note(1, BILLING, "b")
    members.note(2, BILLING, "a")
    assert members.actor_of(7, BILLING, "t", reads(a="t", b="t")) == Actor("t", ("a", "b"))


def test_a_client_without_a_group_is_an_actor_of_its_own() -> None:
    members = MemberConnections()
    members.note(1, BILLING, "a")
    reader = ReadingClient("User:billing", "shell", "10.0.0.1")
    assert members.actor_of(7, reader, "t", reads(a="t")) == Actor("t", (), "User:billing/shell")


def test_a_stranger_with_the_client_id_of_a_group_is_not_of_the_group() -> None:
    members = MemberConnections()
    members.note(1, BILLING, "a")
    assert members.actor_of(7, STRANGER, "t", reads(a="t")) == Actor("t", (), "User:mallory/app")
    elsewhere = BILLING._replace(address="10.0.0.2")
    assert members.actor_of(7, elsewhere, "t", reads(a="t")) == Actor("t", (), "User:billing/app")


def test_a_stranger_that_makes_a_group_with_the_client_id_of_another_does_not_join_it() -> None:
    members = MemberConnections()
    members.note(1, BILLING, "a")
    members.note(2, STRANGER, "x")
    assert members.actor_of(7, BILLING, "t", reads(a="t", x="t")) == Actor("t", ("a",))


def test_a_connection_speaks_for_the_group_of_its_newest_heartbeat() -> None:
    members = MemberConnections()
    for group_id in ("a", "b", "a", "c"):
        members.note(1, BILLING, group_id)
        members.check_invariants()
    every = reads(a="t", b="t", c="t")
    assert members.actor_of(7, BILLING, "t", every) == Actor("t", ("c",)), "one connection takes no second share"
    members.forget(1)
    members.forget(1)
    assert members.actor_of(7, BILLING, "t", every) == Actor("t", (), "User:billing/app")
    assert len(members) == 0


def test_a_reader_of_too_many_groups_is_not_looked_up() -> None:
    members = MemberConnections()
    asked: list[str] = []

    def everything(group_id: str, _topic: str) -> bool:
        asked.append(group_id)
        return True

    for number in range(GROUPS_OF_READER_MAX + 1):
        members.note(number, BILLING, f"g{number}")
    assert members.actor_of(99, BILLING, "t", everything) == Actor("t", (), "User:billing/app")
    assert asked == []
    assert members.actor_of(3, BILLING, "t", everything) == Actor("t", ("g3",)), "by its own connection"


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([BILLING, STRANGER, None]), st.sampled_from("abc"))))
def test_over_any_history_nothing_of_an_ended_connection_is_kept(
    history: list[tuple[int, ReadingClient | None, str]],
) -> None:
    members = MemberConnections()
    for connection, reader, group_id in history:
        if reader is None:
            members.forget(connection)
        else:
            members.note(connection, reader, group_id)
        members.check_invariants()
    for connection in range(6):
        members.forget(connection)
    members.check_invariants()
    assert len(members) == 0
