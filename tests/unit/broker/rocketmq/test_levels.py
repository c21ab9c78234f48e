"""Delay levels, and messages on their way in and out of the schedule."""

import pytest

from hutong.broker.rocketmq.delays.levels import LEVELS_S, RealPlace, delivered, level_of, retry_level, scheduled
from hutong.broker.rocketmq.records.translation import message_of, record_of
from hutong.wire.rocketmq.messages import NO_HOST, PROPERTIES_BYTES_MAX, StoredMessage, encode_properties


def message(**properties: str) -> StoredMessage:
    return StoredMessage("t", 3, 0, 0, b"body", encode_properties(properties))


@pytest.mark.parametrize(
    ("text", "level"), [("0", 0), ("1", 1), ("18", 18), ("19", 18), ("-1", 0), ("x", 0), ("", 0), ("9" * 9, 0)]
)
def test_the_level_of_a_message(text: str, level: int) -> None:
    assert level_of(message(DELAY=text)) == level
    assert level_of(message(TAGS="DELAY")) == 0


def test_there_are_rocketmqs_levels() -> None:
    assert len(LEVELS_S) == 18
    assert LEVELS_S[:5] == (1, 5, 10, 30, 60)
    assert LEVELS_S[-4:] == (1_200, 1_800, 3_600, 7_200)


def test_a_message_comes_out_as_it_went_in_without_its_delay() -> None:
    waiting = scheduled(message(DELAY="2", TAGS="x"), RealPlace("orders", 3), 2)
    assert waiting.queue_id == 1
    found = delivered(waiting)
    assert found is not None
    assert found[0].properties == encode_properties({"TAGS": "x"})
    assert found[1] == RealPlace("orders", 3)


def test_a_message_whose_properties_are_full_keeps_its_place() -> None:
    full = message(DELAY="1", FULL="x" * (PROPERTIES_BYTES_MAX - 20))
    waiting = message_of(record_of(scheduled(full, RealPlace("orders", 3), 1)), "t", 0, 0, NO_HOST)
    found = delivered(waiting)
    assert found is not None
    assert found[1] == RealPlace("orders", 3)


def test_what_was_not_delayed_by_this_protocol_has_no_place() -> None:
    assert delivered(message()) is None
    assert delivered(message(REAL_TOPIC="t", REAL_QID="x")) is None
    assert delivered(message(REAL_TOPIC="t", REAL_QID="9" * 10)) is None
    assert delivered(message(REAL_QID="1")) is None


def test_a_retry_waits_longer_each_time() -> None:
    assert [LEVELS_S[retry_level(0, times) - 1] for times in range(3)] == [10, 30, 60]
    assert retry_level(2, 9) == 2
    assert retry_level(0, 99) == 18
