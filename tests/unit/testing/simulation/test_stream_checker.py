"""The promises of streams, each broken once by a history made by hand."""

import pytest

from hutong.testing.simulation.call_history import (
    CallCarriedOut,
    CallerClosed,
    CallHappening,
    StreamClosed,
    StreamOpened,
    StreamRead,
)
from hutong.testing.simulation.checkers.stream_checker import check_streams
from hutong.testing.simulation.clients.caller import LEFT
from hutong.testing.simulation.history import SimulationHistory
from hutong.testing.simulation.world import World


def errors_of(*happenings: CallHappening) -> list[str]:
    history = SimulationHistory(World(1))
    for happening in happenings:
        history.add(happening)
    return check_streams(history)


def read(*items: int, expected: int = 3, error: str = "") -> CallHappening:
    return StreamRead(2, "c", "c/1", items, expected, error)


OPENED = StreamOpened(1, "desk", "c/1", "n#1.1")


def test_a_sound_history() -> None:
    assert not errors_of(
        OPENED,
        read(0, 1, 2),
        StreamClosed(2, "desk", "c/1", "n#1.1"),
        read(0, 1, error="CallTimeout"),
        read(0, error=LEFT),
        read(error="NoService"),
        CallerClosed(3, "c"),
        read(0, error="CallFailed"),
    )


def test_items_are_skipped_or_come_twice_or_in_another_order() -> None:
    assert errors_of(read(0, 2)) == [
        "c read item 2 of the stream c/1 in the place of 1",
        "the stream c/1 ended after 2 of 3 items",
    ]
    assert errors_of(read(0, 1, 1, error=LEFT)) == ["c read item 1 of the stream c/1 in the place of 2"]
    assert errors_of(read(1, 0, error=LEFT)) == ["c read item 1 of the stream c/1 in the place of 0"]


def test_a_stream_ends_too_early() -> None:
    assert errors_of(read(0, 1)) == ["the stream c/1 ended after 2 of 3 items"]


@pytest.mark.parametrize("error", ["BadReply", "CallFailed"])
def test_a_stream_fails_for_no_reason(error: str) -> None:
    assert errors_of(read(0, error=error)) == [f"the stream c/1 failed with {error}, for which there was no reason"]


def test_a_stream_is_left_open() -> None:
    assert errors_of(OPENED) == ["the stream c/1 is open in the end, as n#1.1"]
    assert not errors_of(OPENED, CallCarriedOut(2, "desk", "c/2", "n#2.1")), "its process has died"
