"""The checker of compacted topics: a sound history, and each promise broken once."""

import pytest

from hutong.testing.simulation.checkers.compaction_checker import check_compaction
from hutong.testing.simulation.history import (
    FinalKeys,
    Happening,
    KeyedRecord,
    KeySent,
    SimulationHistory,
    TransactionEnded,
    ValueAcknowledged,
    ValueRefused,
)
from hutong.testing.simulation.world import World

PLACE = ("accounts", 0)
KEY = b"key-1"


def sent(number: int, *, deletes: bool = False, within: str | None = None) -> KeySent:
    return KeySent(number, "keeper-0", PLACE, KEY, b"keeper-0/%d" % number, deletes, within)


def ended(transaction: str, *, is_commit: bool, is_certain: bool = True) -> TransactionEnded:
    return TransactionEnded(9, 8, "keeper-0", transaction, is_commit, is_certain)


def stored(number: int, offset: int) -> ValueAcknowledged:
    return ValueAcknowledged(number, "keeper-0", PLACE, b"keeper-0/%d" % number, offset)


def record(number: int, offset: int, *, deletes: bool = False) -> KeyedRecord:
    return KeyedRecord(offset, KEY, b"keeper-0/%d" % number, deletes)


def errors_of(*happenings: Happening | KeyedRecord, keeps_tombstones: bool = False) -> list[str]:
    """The records among them are what the last reader finds."""
    history = SimulationHistory(World(1))
    found = [each for each in happenings if isinstance(each, KeyedRecord)]
    for each in (*happenings, FinalKeys(PLACE, keeps_tombstones, tuple(found))):
        if not isinstance(each, KeyedRecord):
            history.add(each)
    return check_compaction(history)


def test_a_sound_history_has_no_errors() -> None:
    written = (sent(1), stored(1, 0), sent(2), stored(2, 1), sent(3), stored(3, 2))
    assert not errors_of(*written, record(3, 2))
    # Not everything is cleaned at once.
    assert not errors_of(*written, record(1, 0), record(3, 2))


def test_the_newest_record_of_a_key_is_there() -> None:
    history = (sent(1), stored(1, 0), sent(2), stored(2, 1))
    assert errors_of(*history, record(1, 0)) == ["b'key-1' of accounts-0 is lost: b'keeper-0/2' was acknowledged at 1"]


def test_a_tombstone_may_go_with_all_that_it_deletes() -> None:
    history = (sent(1), stored(1, 0), sent(2, deletes=True), stored(2, 1))
    assert not errors_of(*history)
    assert not errors_of(*history, record(1, 0), record(2, 1, deletes=True))
    assert errors_of(*history, record(1, 0)) == ["b'key-1' of accounts-0 is back: b'keeper-0/1' at 0, deleted at 1"]


def test_a_tombstone_is_kept_for_its_time() -> None:
    history = (sent(1), stored(1, 0), sent(2, deletes=True), stored(2, 1))
    assert errors_of(*history, keeps_tombstones=True) == [
        "b'key-1' of accounts-0 is lost: b'keeper-0/2' was acknowledged at 1"
    ]


def test_a_write_without_an_answer_may_be_the_newest() -> None:
    history = (sent(1), stored(1, 0), sent(2, deletes=True))
    assert not errors_of(*history, record(1, 0))
    assert not errors_of(*history)
    assert errors_of(*history, keeps_tombstones=True)
    assert not errors_of(sent(1), stored(1, 0), sent(2), record(2, 1))


@pytest.mark.parametrize(
    ("found", "error"),
    [
        (record(2, 0), "b'keeper-0/2' of accounts-0 at 0 was never sent"),
        (record(1, 0, deletes=True), "b'keeper-0/1' of accounts-0 at 0 is not as it was sent"),
        (record(1, 1), "b'keeper-0/1' of accounts-0 at 1 was acknowledged at 0"),
    ],
)
def test_records_are_as_they_were_sent(found: KeyedRecord, error: str) -> None:
    assert error in errors_of(sent(1), stored(1, 0), found)


def test_nothing_refused_is_there_and_nothing_twice() -> None:
    refused = ValueRefused(5, "keeper-0", PLACE, b"keeper-0/2", 87)
    history = (sent(1), stored(1, 0), sent(2), refused)
    assert errors_of(*history, record(1, 0), record(2, 1)) == ["b'keeper-0/2' of accounts-0 at 1 was refused"]
    assert errors_of(sent(1), record(1, 0), record(1, 1)) == ["b'keeper-0/1' is twice: at 0 and 1"]


def test_the_newest_that_was_committed_is_there() -> None:
    history = (sent(1), stored(1, 0), sent(2, within="t-1"), stored(2, 1))
    lost = ["b'key-1' of accounts-0 is lost: b'keeper-0/2' was acknowledged at 1"]
    assert errors_of(*history, ended("t-1", is_commit=True), record(1, 0)) == lost
    assert not errors_of(*history, ended("t-1", is_commit=False), record(1, 0))
    # It may have been committed, or not.
    for doubt in ([], [ended("t-1", is_commit=True, is_certain=False)]):
        assert not errors_of(*history, *doubt, record(1, 0))
        assert not errors_of(*history, *doubt, record(2, 1))


def test_nothing_aborted_is_there() -> None:
    history = (sent(1, within="t-1"), stored(1, 0), ended("t-1", is_commit=False))
    assert errors_of(*history, record(1, 0)) == ["b'keeper-0/1' of accounts-0 at 0 was aborted"]
