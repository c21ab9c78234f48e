"""The checker of the catalogue: a sound history, and each promise broken once."""

from hutong.testing.simulation.admin_history import LogStartSeen, TopicChanged, TopicSeen
from hutong.testing.simulation.checkers.topic_checker import check_topics
from hutong.testing.simulation.clients.admin import ALTERS, CREATES, DELETES, GROWS, UNKNOWN
from hutong.testing.simulation.history import Happening, SimulationHistory
from hutong.testing.simulation.world import World
from hutong.wire.kafka.error_codes import ErrorCode

TOPIC = "admin-0.1"
GONE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def changed(at_us: int, kind: str, partitions: int = 0, error: int = 0, *, lasts_us: int = 5) -> TopicChanged:
    return TopicChanged(at_us, at_us - lasts_us, "admin-0", TOPIC, kind, partitions, error)


def seen(at_us: int, partitions: int) -> TopicSeen:
    return TopicSeen(at_us, at_us - 5, "checker", TOPIC, partitions)


def starts(at_us: int, offset: int, *, is_promise: bool = False) -> LogStartSeen:
    return LogStartSeen(at_us, at_us - 5, "admin-0", (TOPIC, 0), offset, is_promise)


def errors_of(*happenings: Happening) -> list[str]:
    history = SimulationHistory(World(1))
    for each in happenings:
        history.add(each)
    return check_topics(history)


def test_a_sound_history_has_no_errors() -> None:
    assert not errors_of(
        changed(100, CREATES, 2),
        seen(110, 2),
        changed(120, GROWS, 4),
        seen(130, 4),
        starts(140, 7, is_promise=True),
        starts(150, 7),
        changed(160, DELETES),
        seen(170, 0),
        changed(180, CREATES, 1),
        starts(190, 0),
        changed(200, CREATES, 3, ErrorCode.TOPIC_ALREADY_EXISTS),
        changed(210, GROWS, 1, ErrorCode.INVALID_PARTITIONS),
        seen(220, 1),
    )


def test_what_was_created_is_there() -> None:
    assert errors_of(changed(100, CREATES, 2), seen(110, 0)) == [
        f"checker finds {TOPIC} with 0 partitions instead of 2"
    ]


def test_what_was_deleted_stays_gone() -> None:
    history = (changed(100, CREATES, 2), changed(110, DELETES), seen(120, 0), seen(130, 2))
    assert errors_of(*history) == [f"checker finds {TOPIC} with 2 partitions instead of 0"]


def test_added_partitions_stay() -> None:
    history = (changed(100, CREATES, 2), changed(110, GROWS, 3), seen(120, 2))
    assert errors_of(*history) == [f"checker finds {TOPIC} with 2 partitions instead of 3"]


def test_a_change_without_an_answer_was_made_or_not() -> None:
    begin = (changed(100, CREATES, 2), changed(110, GROWS, 3, UNKNOWN))
    for partitions in (2, 3):
        assert not errors_of(*begin, seen(120, partitions))
    assert errors_of(*begin, seen(120, 4))


def test_changes_at_the_same_time_have_an_order_that_fits_their_answers() -> None:
    begin = (changed(100, CREATES, 2), changed(120, DELETES, lasts_us=10))
    assert not errors_of(*begin, changed(121, GROWS, 3, lasts_us=10), seen(130, 0))
    assert not errors_of(*begin, changed(121, GROWS, 3, GONE, lasts_us=10), seen(130, 0))
    assert errors_of(*begin, changed(121, GROWS, 3, lasts_us=10), seen(130, 3))
    # One after the other there is but one order.
    assert errors_of(*begin, changed(140, GROWS, 3), seen(150, 0)) == [
        f"the answers (grows 3: 0) do not fit {TOPIC} with 0 partitions"
    ]


def test_a_refusal_because_of_a_change_under_way_promises_nothing() -> None:
    history = (
        changed(100, CREATES, 2),
        changed(121, ALTERS, error=GONE, lasts_us=10),
        changed(125, DELETES, error=UNKNOWN, lasts_us=10),
    )
    for partitions in (0, 2):
        assert not errors_of(*history, seen(130, partitions))


def test_settings_of_a_topic_that_is_gone_are_refused() -> None:
    begin = (changed(100, CREATES, 2), changed(110, DELETES))
    assert not errors_of(*begin, changed(120, ALTERS, error=GONE), seen(130, 0))
    assert errors_of(*begin, changed(120, ALTERS), seen(130, 0))


def test_a_start_that_was_promised_does_not_go_back() -> None:
    begin = (changed(100, CREATES, 1), starts(110, 7, is_promise=True))
    assert errors_of(*begin, starts(120, 5)) == [f"{TOPIC}-0 starts at 5, although admin-0 was promised 7"]
    # A look that began before the promise may see less.
    assert not errors_of(*begin, starts(112, 5))
