"""The checker of processors: histories by hand, sound and broken ones."""

from hutong.testing.simulation.checkers.processing_checker import check_processing
from hutong.testing.simulation.history import (
    FinalRead,
    Happening,
    OffsetCommitBegun,
    OffsetSeen,
    SimulationHistory,
    ValueSent,
)
from hutong.testing.simulation.world import World

SOURCE, TARGET = ("orders", 0), ("copies", 0)
RECORDS = ((0, b"p/1"), (1, b"p/2"), (2, b"p/3"))


def errors_of(made: dict[bytes, int], found: list[bytes], committed_offset: int) -> list[str]:
    """`made` are the values of a processor with their source offsets, `found` those that are committed in the end."""
    happenings: list[Happening] = [OffsetCommitBegun(1, "processor", "group", 1, SOURCE, committed_offset)]
    happenings += [ValueSent(1, "processor", TARGET, value, "t", (SOURCE, offset)) for value, offset in made.items()]
    happenings += [
        FinalRead(SOURCE, True, 0, RECORDS),
        FinalRead(TARGET, True, 0, tuple(enumerate(found))),
        OffsetSeen(2, 1, "checker", "group", SOURCE, committed_offset),
    ]
    history = SimulationHistory(World(1))
    for each in happenings:
        history.add(each)
    return check_processing(history)


def test_each_record_up_to_the_offset_became_one_value() -> None:
    made = {b"c/1": 0, b"c/2": 0, b"c/3": 1}
    assert errors_of(made, [b"c/2", b"c/3"], 2) == []
    assert errors_of(made, [], -1) == []


def test_a_record_that_became_two_values() -> None:
    (error,) = errors_of({b"c/1": 0, b"c/2": 0}, [b"c/1", b"c/2"], 1)
    assert error == "orders-0 at 0 became b'c/1' and b'c/2'"


def test_a_record_that_was_passed_over() -> None:
    (error,) = errors_of({b"c/1": 0, b"c/2": 1}, [b"c/1"], 2)
    assert error == "b'p/2' of orders-0 at 1 became nothing, but group has committed 2"


def test_an_offset_that_was_not_committed_with_its_values() -> None:
    (error,) = errors_of({b"c/1": 0, b"c/2": 1}, [b"c/1", b"c/2"], 1)
    assert error == "orders-0 at 1 became b'c/2', but group has committed 1"


def test_an_offset_without_any_value() -> None:
    assert len(errors_of({b"c/1": 0}, [], 3)) == 3
