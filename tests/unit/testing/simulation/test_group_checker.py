"""The checker of groups: each promise broken once, and histories that are sound although they look otherwise."""

import pytest

from hutong.testing.simulation.checkers.group_checker import check_groups
from hutong.testing.simulation.history import (
    FinalRead,
    Happening,
    MembershipConfirmed,
    OffsetCommitBegun,
    OffsetCommitRefused,
    OffsetCommitted,
    OffsetSeen,
    PartitionsGivenUp,
    PartitionsOwned,
    SimulationHistory,
    ValueRead,
)
from hutong.testing.simulation.history_text import Place
from hutong.testing.simulation.world import World

ORDERS = ("orders", 0)


class HandMade:
    """A history made by hand: each happening is one millisecond after the one before."""

    def __init__(self) -> None:
        self.history = SimulationHistory(World(1))
        self.now_us = 0

    def add(self, event: Happening) -> None:
        self.history.add(event)

    def tick(self) -> int:
        self.now_us += 1_000
        return self.now_us

    def pass_seconds(self, seconds: int) -> None:
        self.now_us += seconds * 1_000_000

    def owns(
        self, client: str, generation: int, *places: Place, begun_us: int | None = None, instance: str = ""
    ) -> None:
        begun_us = self.tick() if begun_us is None else begun_us
        self.add(PartitionsOwned(self.tick(), begun_us, client, instance, "g", generation, places))

    def gives_up(self, client: str) -> None:
        self.add(PartitionsGivenUp(self.tick(), client, "g"))

    def keeps(self, client: str, generation: int, *places: Place) -> None:
        begun_us = self.tick()
        self.add(MembershipConfirmed(self.tick(), begun_us, client, "g", generation, places))

    def reads(self, client: str, *offsets: int, is_committed: bool = False) -> None:
        for offset in offsets:
            self.add(ValueRead(self.tick(), client, 1, ORDERS, offset, b"p/%d" % offset, is_committed))

    def begins(self, client: str, number: int, offset: int) -> None:
        self.add(OffsetCommitBegun(self.tick(), client, "g", number, ORDERS, offset))

    def is_acknowledged(self, client: str, number: int, offset: int) -> None:
        self.add(OffsetCommitted(self.tick(), client, "g", number, ORDERS, offset))

    def is_refused(self, client: str, number: int, offset: int) -> None:
        self.add(OffsetCommitRefused(self.tick(), client, "g", number, ORDERS, offset, 22))

    def commits(self, client: str, number: int, offset: int) -> None:
        self.begins(client, number, offset)
        self.is_acknowledged(client, number, offset)

    def finds(self, offset: int, begun_us: int | None = None) -> None:
        begun_us = self.tick() if begun_us is None else begun_us
        self.add(OffsetSeen(self.tick(), begun_us, "checker", "g", ORDERS, offset))

    def holds(self, *offsets: int, is_committed: bool = False) -> None:
        self.add(FinalRead(ORDERS, is_committed, 0, tuple((offset, b"p/%d" % offset) for offset in offsets)))

    @property
    def errors(self) -> list[str]:
        return check_groups(self.history)


@pytest.fixture
def made() -> HandMade:
    return HandMade()


def test_a_history_of_two_owners_one_after_the_other_is_sound(made: HandMade) -> None:
    made.finds(-1)
    made.owns("one", 1, ORDERS)
    made.reads("one", 0, 1)
    made.commits("one", 1, 2)
    made.keeps("one", 1, ORDERS)
    made.gives_up("one")
    made.owns("other", 2, ORDERS)
    made.finds(2)
    made.reads("other", 2)
    made.commits("other", 1, 3)
    made.finds(3)
    made.holds(0, 1, 2)
    assert made.errors == []


# -- owners


def test_a_partition_has_one_owner_in_a_generation(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.owns("other", 1, ORDERS)
    assert made.errors == ["orders-0 belongs to other and to one in generation 1 of g"]


def test_the_next_process_of_a_static_member_owns_it_in_the_same_generation(made: HandMade) -> None:
    made.owns("one", 1, ORDERS, instance="i")
    made.owns("other", 1, ORDERS, instance="i")
    assert made.errors == []
    made.commits("one", 1, 0)
    assert made.errors == ["a commit of one was accepted although other has got orders-0 in g since"]


def test_an_emptied_group_may_begin_at_1_again(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.pass_seconds(2)
    made.owns("other", 1, ORDERS)
    assert made.errors == []


def test_who_has_given_it_up_owns_it_no_more(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.owns("one", 1)
    made.owns("other", 1, ORDERS)
    made.gives_up("other")
    made.owns("one", 1, ORDERS)
    assert made.errors == []


def test_a_member_that_was_removed_may_believe_that_it_owns_its_partitions(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.owns("other", 2, ORDERS)
    made.reads("one", 0)
    made.begins("one", 1, 1)
    made.is_refused("one", 1, 1)
    made.finds(-1)
    made.holds(0)
    assert made.errors == []


def test_a_commit_of_the_former_owner_is_not_accepted(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.owns("other", 2, ORDERS)
    made.commits("one", 1, 0)
    assert made.errors == ["a commit of one was accepted although other has got orders-0 in g since"]


def test_a_commit_that_was_under_way_before_the_next_owner_knew_may_be_accepted(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.begins("one", 1, 0)
    made.owns("other", 2, ORDERS)
    made.is_acknowledged("one", 1, 0)
    assert made.errors == []


def test_a_heartbeat_of_the_former_owner_is_not_accepted_with_the_partition(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.owns("other", 2, ORDERS)
    made.keeps("one", 1)
    assert made.errors == []
    made.keeps("one", 1, ORDERS)
    assert made.errors == ["a heartbeat of one was accepted although other has got orders-0 in g since"]


def test_nobody_knows_whose_turn_was_first_where_the_requests_overlapped(made: HandMade) -> None:
    made.owns("one", 2, ORDERS)
    made.owns("other", 1, ORDERS, begun_us=0)  # an answer that came late
    made.commits("one", 1, 0)
    assert made.errors == []


# -- committed offsets


def lost(offset: int, seconds: float, instead: str = "") -> str:
    return (
        f"checker found offset {offset} of orders-0 committed for g at {seconds:.3f} s, which is not the last one"
        f" committed{instead}"
    )


def test_a_committed_offset_is_not_lost(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.commits("one", 1, 0)
    made.finds(-1)
    assert made.errors == [lost(-1, 0.006, ": 0 was, by one, before 0.004 s")]


def test_a_committed_offset_does_not_go_back(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.commits("one", 1, 5)
    made.commits("one", 2, 7)
    made.finds(5)
    assert made.errors == [lost(5, 0.008, ": 7 was, by one, before 0.006 s")]


def test_a_lower_offset_that_somebody_committed_counts(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.commits("one", 1, 7)
    made.commits("one", 2, 5)
    made.finds(5)
    made.finds(7)
    assert made.errors == [lost(7, 0.010, ": 5 was, by one, before 0.006 s")]


def test_an_offset_that_nobody_committed_is_not_found(made: HandMade) -> None:
    made.finds(3)
    assert made.errors == [lost(3, 0.002)]


def test_a_refused_commit_is_not_found(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.begins("one", 1, 5)
    made.is_refused("one", 1, 5)
    made.finds(5)
    assert made.errors == [lost(5, 0.006)]


def test_a_commit_under_way_may_be_found_or_not(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.commits("one", 1, 5)
    began_us = made.now_us
    made.begins("one", 2, 7)
    made.finds(5)
    made.finds(7, begun_us=began_us)
    made.finds(5, begun_us=began_us)
    made.is_acknowledged("one", 2, 7)
    made.finds(5, begun_us=began_us)
    made.finds(7)
    assert made.errors == []


def test_a_commit_that_was_found_once_is_not_lost(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.commits("one", 1, 5)
    made.begins("one", 2, 7)
    made.finds(7)
    made.finds(5)
    assert made.errors == [lost(5, 0.009, ": 7 was, by one, before 0.007 s")]


def test_a_commit_without_an_answer_may_take_effect_late(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.begins("one", 1, 5)
    made.commits("one", 2, 7)
    made.finds(7)
    made.finds(5)
    assert made.errors == []


def test_a_commit_without_an_answer_takes_no_effect_once_the_next_owner_has_committed(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.begins("one", 1, 5)
    made.owns("other", 2, ORDERS)
    made.commits("other", 1, 3)
    made.finds(5)
    assert made.errors == [lost(5, 0.009, ": 3 was, by other, before 0.007 s")]


# -- records


@pytest.mark.parametrize("is_committed", [False, True])
def test_every_record_in_front_of_a_committed_offset_was_read(made: HandMade, is_committed: bool) -> None:
    made.owns("one", 1, ORDERS)
    made.reads("one", 0, 2, is_committed=is_committed)
    made.commits("one", 1, 3)
    made.holds(0, 2, is_committed=is_committed)
    assert made.errors == []
    made.holds(0, 1, 2, is_committed=is_committed)
    assert made.errors == ["g passed over orders-0 at 1: it committed 3"]


def test_a_record_that_is_read_after_the_commit_was_passed_over(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.commits("one", 1, 1)
    made.reads("one", 0)
    made.holds(0)
    assert made.errors == ["g passed over orders-0 at 0: it committed 1"]


def test_reads_of_others_do_not_count_for_the_group(made: HandMade) -> None:
    made.owns("one", 1, ORDERS)
    made.reads("reader", 0)
    made.commits("one", 1, 1)
    made.holds(0)
    made.holds(0, is_committed=True)
    assert made.errors == ["g passed over orders-0 at 0: it committed 1"]
