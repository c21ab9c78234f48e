"""The promises of transactions, each broken once by a history made by hand."""

import pytest

from hutong.testing.simulation.checkers.transaction_checker import check_transactions
from hutong.testing.simulation.history import (
    FinalRead,
    Happening,
    ProducerInitialised,
    SimulationHistory,
    TransactionEnded,
    ValueAcknowledged,
    ValueRead,
    ValueSent,
)
from hutong.testing.simulation.world import World

PLACE = ("ledger", 0)
OTHER = ("ledger", 1)


def errors_of(*happenings: Happening) -> list[str]:
    history = SimulationHistory(World(1))
    for happening in happenings:
        history.add(happening)
    return check_transactions(history)


def written(value: bytes, transaction: str | None, place: tuple[str, int] = PLACE) -> list[Happening]:
    return [ValueSent(1, "t", place, value, transaction), ValueAcknowledged(2, "t", place, value, 0)]


def ended(transaction: str, *, is_commit: bool, is_certain: bool = True) -> Happening:
    return TransactionEnded(3, 3, "t", transaction, is_commit, is_certain)


def finals(all_values: list[bytes], committed: list[bytes], place: tuple[str, int] = PLACE) -> list[Happening]:
    records = list(enumerate(all_values))
    return [
        FinalRead(place, False, 0, tuple(records)),
        FinalRead(place, True, 0, tuple(record for record in records if record[1] in committed)),
    ]


def test_a_sound_history() -> None:
    assert not errors_of(
        *written(b"t/1", "a"),
        ended("a", is_commit=True),
        *written(b"t/2", "b"),
        ended("b", is_commit=False),
        *written(b"t/3", "c"),
        ended("c", is_commit=True, is_certain=False),
        *written(b"p/4", None),
        ValueRead(4, "r", 1, PLACE, 0, b"t/1", True),
        *finals([b"t/1", b"t/2", b"t/3", b"p/4"], [b"t/1", b"p/4"]),
    )


def test_an_aborted_value_is_read_by_a_committed_reader() -> None:
    aborted = [*written(b"t/1", "a"), ended("a", is_commit=False)]
    (error,) = errors_of(*aborted, ValueRead(4, "r", 1, PLACE, 0, b"t/1", True), *finals([b"t/1"], []))
    assert error == "r read b't/1' of a, which was aborted"
    assert errors_of(*aborted, ValueRead(4, "r", 1, PLACE, 0, b"t/1", False), *finals([b"t/1"], [])) == []


def test_an_aborted_value_is_there_in_the_end() -> None:
    (error,) = errors_of(*written(b"t/1", "a"), ended("a", is_commit=False), *finals([b"t/1"], [b"t/1"]))
    assert "is there for committed readers" in error


def test_a_committed_value_is_missing() -> None:
    (error,) = errors_of(*written(b"t/1", "a"), ended("a", is_commit=True), *finals([b"t/1"], []))
    assert error == "a was committed, and b't/1' is not there"


@pytest.mark.parametrize("is_known", [True, False])
def test_a_part_of_a_transaction_is_there(is_known: bool) -> None:
    end = [ended("a", is_commit=True, is_certain=False)] if is_known else []
    (error,) = errors_of(
        *written(b"t/1", "a"),
        *written(b"t/2", "a", OTHER),
        *end,
        *finals([b"t/1"], [b"t/1"]),
        *finals([b"t/2"], [], OTHER),
    )
    assert error == "a part of a is there: b't/2' is not"


def test_a_committed_reader_misses_a_record_without_a_transaction() -> None:
    (error,) = errors_of(*written(b"p/1", None), *finals([b"p/1"], []))
    assert "are not those that are stored" in error


def owned(client: str, begun_us: int, at_us: int) -> Happening:
    return ProducerInitialised(at_us, begun_us, client, "id", 7, at_us)


def test_an_owner_that_was_replaced_is_heard() -> None:
    first, second = owned("t", 0, 10), owned("u", 11, 20)
    late: list[Happening] = [ValueSent(21, "t", PLACE, b"t/1", "a"), ValueAcknowledged(22, "t", PLACE, b"t/1", 0)]
    (error,) = errors_of(first, second, *late)
    assert error == "b't/1' of t succeeded although u has id since"
    (error,) = errors_of(first, second, TransactionEnded(30, 25, "t", "a", True, True))
    assert error == "the commit of a of t succeeded although u has id since"
    # An answer that comes late to what was asked for in time says nothing; nor does one who has the id again.
    assert not errors_of(first, second, TransactionEnded(30, 15, "t", "a", True, True))
    assert not errors_of(first, second, owned("t", 12, 20), *late)
    assert not errors_of(first, owned("u", 5, 20), *late)
