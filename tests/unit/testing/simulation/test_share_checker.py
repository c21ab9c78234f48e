"""The checker of share groups: one sound history, and each promise broken once."""

from hutong.testing.simulation.checkers.share_checker import check_share_groups
from hutong.testing.simulation.history import (
    AcquisitionUnknown,
    FinalRead,
    Happening,
    RecordsAcquired,
    RecordsSettled,
    ShareGroupRead,
    SimulationHistory,
)
from hutong.testing.simulation.world import World

PLACE = ("orders", 0)
GROUP = "tasks"
LOCK_US = 1_000


def acquired(at_us: int, client: str, count: int, *offsets: int, value: bytes = b"v%d") -> RecordsAcquired:
    """It was asked for 10 microseconds before."""
    records = tuple((offset, value % offset if b"%" in value else value) for offset in offsets)
    return RecordsAcquired(at_us, at_us - 10, client, GROUP, PLACE, count, LOCK_US, records)


def settled(at_us: int, client: str, kind: str, count: int, *offsets: int, error: int = 0) -> RecordsSettled:
    return RecordsSettled(at_us, at_us - 10, client, GROUP, PLACE, count, kind, offsets, error)


def end(start: int, end_offset: int) -> list[Happening]:
    """The group's standing with a limit of three deliveries, and the log, which has a record at each offset."""
    records = tuple((offset, b"v%d" % offset) for offset in range(end_offset))
    return [FinalRead(PLACE, False, 0, records), ShareGroupRead(GROUP, PLACE, start, end_offset, 3)]


def errors_of(*happenings: Happening) -> list[str]:
    history = SimulationHistory(World(1))
    for each in happenings:
        history.add(each)
    return check_share_groups(history)


def test_a_sound_history_has_no_errors() -> None:
    assert not errors_of(
        acquired(100, "a", 1, 0, 1),
        settled(200, "a", "accepts", 1, 0),
        settled(250, "a", "releases", 1, 1),
        acquired(300, "b", 2, 1),
        # Its lock ends, and another member gets the record.
        acquired(1_400, "a", 3, 1),
        settled(1_500, "b", "accepts", 2, 1, error=121),
        # The node ends: what is at its limit is delivered once more.
        acquired(1_600, "b", 3, 1),
        settled(1_700, "b", "rejects", 3, 1),
        *end(2, 2),
    )


def test_an_accepted_record_does_not_come_again() -> None:
    history = (acquired(100, "a", 1, 0), settled(200, "a", "accepts", 1, 0), acquired(300, "b", 2, 0))
    assert errors_of(*history) == ["orders-0 at 0 in tasks: a accepts it, and b gets it again"]


def test_an_acknowledgement_without_an_answer_promises_nothing() -> None:
    history = (acquired(100, "a", 1, 0), settled(200, "a", "accepts", 1, 0, error=-1), acquired(300, "b", 2, 0))
    assert not errors_of(*history)


def test_a_record_has_one_holder_at_a_time() -> None:
    history = (acquired(100, "a", 1, 0), acquired(200, "b", 2, 0), settled(300, "a", "releases", 1, 0))
    assert errors_of(*history) == ["orders-0 at 0 in tasks: b gets it while a has it"]


def test_a_lock_that_has_ended_holds_nothing() -> None:
    history = (acquired(100, "a", 1, 0), acquired(1_100, "b", 2, 0), settled(1_300, "a", "releases", 1, 0))
    assert not errors_of(*history)


def test_the_word_of_a_member_after_another_has_finished_proves_nothing() -> None:
    """Two leaders in turn have begun without locks, and what the first member says is a repetition to the second."""
    history = (
        acquired(100, "a", 1, 0),
        acquired(200, "b", 2, 0),
        acquired(300, "b", 3, 0),
        settled(350, "b", "accepts", 3, 0),
        settled(400, "a", "accepts", 1, 0),
    )
    assert not errors_of(*history)


def test_the_word_of_a_member_after_a_record_was_given_up_proves_nothing() -> None:
    """A leader has begun without locks, and the member of the last delivery has gone."""
    history = (acquired(100, "a", 1, 0), acquired(200, "b", 3, 0), settled(400, "a", "accepts", 1, 0))
    assert not errors_of(*history, *end(1, 1))
    # One that has let it go by a word still had it then.
    late = settled(500, "b", "releases", 3, 0)
    assert errors_of(*history, late, *end(1, 1)) == ["orders-0 at 0 in tasks: b gets it while a has it"]


def test_one_delivery_is_one_members() -> None:
    history = (acquired(100, "a", 1, 0), acquired(105, "b", 1, 0))
    assert errors_of(*history) == ["orders-0 at 0 in tasks: a and b both get it for delivery 1"]


def test_delivery_counts_rise() -> None:
    history = (acquired(100, "a", 2, 0), acquired(200, "b", 1, 0))
    assert errors_of(*history) == ["orders-0 at 0 in tasks: b gets delivery 1 after 2"]


def test_the_limit_of_deliveries_holds() -> None:
    history = (acquired(100, "a", 4, 0), settled(200, "a", "accepts", 4, 0), *end(1, 1))
    assert errors_of(*history) == ["orders-0 at 0 in tasks: a gets it for delivery 4 of at most 3"]


def test_a_group_must_come_to_the_end() -> None:
    history = (acquired(100, "a", 1, 0), settled(200, "a", "accepts", 1, 0), *end(1, 2))
    assert errors_of(*history) == ["tasks is stuck at orders-0 at 1 of 2"]


def test_no_record_is_passed_over() -> None:
    assert errors_of(*end(1, 1)) == ["orders-0 at 0 in tasks was passed over after 0 deliveries"]
    history = (acquired(100, "a", 1, 0), settled(200, "a", "releases", 1, 0), *end(1, 1))
    assert errors_of(*history) == ["orders-0 at 0 in tasks was passed over after 1 deliveries"]


def test_a_record_may_be_given_up_after_deliveries_that_nobody_saw() -> None:
    unknown = [AcquisitionUnknown(at_us, at_us - 10, "a", GROUP) for at_us in (100, 200, 300)]
    assert not errors_of(*unknown, *end(1, 1))
    assert errors_of(*unknown[:2], *end(1, 1))


def test_members_get_what_the_log_has() -> None:
    history = (acquired(100, "a", 1, 0, value=b"other"), settled(200, "a", "accepts", 1, 0), *end(1, 1))
    assert errors_of(*history) == ["orders-0 at 0 held b'other' and b'v0'"]
