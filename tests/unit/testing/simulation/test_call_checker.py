"""The promises of calls, each broken once by a history made by hand."""

import pytest

from hutong.testing.simulation.call_history import (
    CallAbandoned,
    CallAnswered,
    CallBegun,
    CallCarriedOut,
    CallerClosed,
    CallHappening,
    CallUnanswered,
)
from hutong.testing.simulation.checkers.call_checker import IN_DOUBT, LATE_US, NOTHING_HAPPENED, check_calls
from hutong.testing.simulation.history import SimulationHistory
from hutong.testing.simulation.world import World

TIMEOUT_MS = 800
LATEST_US = 1_000 * (TIMEOUT_MS + TIMEOUT_MS // 8) + LATE_US


def errors_of(*happenings: CallHappening, until_us: int = 0) -> list[str]:
    world = World(1)
    world.now_us = until_us
    history = SimulationHistory(world)
    for happening in happenings:
        history.add(happening)
    return check_calls(history)


def begun(name: str = "c/1", attempts_max: int = 1) -> CallHappening:
    return CallBegun(0, "c", name, attempts_max, TIMEOUT_MS)


def carried_out(number: str = "n.1", name: str = "c/1") -> CallHappening:
    return CallCarriedOut(10, "n", name, number)


def answered(number: str = "n.1", name: str = "c/1", answer: str = "c/1", at_us: int = 20) -> CallHappening:
    return CallAnswered(at_us, "c", name, answer, number)


def failed(error: str, at_us: int = 20) -> CallHappening:
    return CallUnanswered(at_us, "c", "c/1", error)


def test_a_sound_history() -> None:
    assert not errors_of(
        begun(),
        begun("c/2", attempts_max=3),
        begun("c/3"),
        begun("c/4"),
        carried_out(),
        answered(at_us=LATEST_US),
        carried_out("n.2", "c/2"),
        carried_out("n.3", "c/2"),
        answered("n.2", "c/2", "c/2"),
        carried_out("n.4", "c/2"),  # a late attempt, after the answer to an earlier one
        CallAbandoned(20, "c", "c/3"),
        carried_out("n.5", "c/3"),
        CallAbandoned(20, "c", "c/1"),  # its answer was on its way
        until_us=LATEST_US,  # the fourth call may still end
    )


def test_a_call_is_carried_out_more_often_than_it_may_be_sent() -> None:
    (error,) = errors_of(begun(), carried_out("n.1"), carried_out("n.2"), answered())
    assert error == "c/1 was carried out 2 times, and 1 attempts were allowed"
    (error,) = errors_of(begun(attempts_max=2), carried_out("n.1"), carried_out("n.2"), carried_out("n.3"), answered())
    assert error == "c/1 was carried out 3 times, and 2 attempts were allowed"


@pytest.mark.parametrize("error", sorted(NOTHING_HAPPENED))
def test_a_call_is_carried_out_although_nothing_happened(error: str) -> None:
    (sentence,) = errors_of(begun(), carried_out(), failed(error))
    assert sentence == f"c/1 was carried out before {error} said that nothing happened"
    (sentence,) = errors_of(begun(), failed(error), carried_out())
    assert sentence == f"c/1 was carried out after {error} had said that nothing happened"
    assert not errors_of(begun(), failed(error))


@pytest.mark.parametrize("error", sorted(IN_DOUBT))
def test_a_call_in_doubt_may_have_been_carried_out(error: str) -> None:
    assert not errors_of(begun(), carried_out(), failed(error))
    assert not errors_of(begun(), failed(error), carried_out())


def test_a_call_succeeds_and_was_not_carried_out() -> None:
    (error,) = errors_of(begun(), answered())
    assert error == "c/1 succeeded, and was not carried out as n.1"
    (error,) = errors_of(begun(), carried_out("n.2"), answered())
    assert error == "c/1 succeeded, and was not carried out as n.1"


def test_an_answer_is_that_of_another_call() -> None:
    (error,) = errors_of(begun(), begun("c/2"), carried_out(), carried_out("n.2", "c/2"), answered("n.2", answer="c/2"))
    assert error == "c/1 got the answer of c/2"


@pytest.mark.parametrize("before", [failed("CallTimeout"), answered(), CallAbandoned(20, "c", "c/1")])
def test_an_answer_comes_after_the_end(before: CallHappening) -> None:
    (error,) = errors_of(begun(), carried_out(), before, answered(at_us=30))
    assert error.startswith("c/1 has ended twice: ")


def test_a_call_ends_too_late() -> None:
    (error,) = errors_of(begun(), carried_out(), answered(at_us=LATEST_US + 1))
    assert error == "c/1 ended 950.001 ms after it began"


def test_a_call_does_not_end() -> None:
    (error,) = errors_of(begun(), carried_out(), until_us=LATEST_US + 1)
    assert error == "c/1 has not ended 0.950 s after it began"


def test_a_call_was_never_begun() -> None:
    (error,) = errors_of(carried_out())
    assert error == "c/1 was carried out, and nobody had called it"


def test_a_call_fails_for_no_reason() -> None:
    (error,) = errors_of(begun(), failed("BadReply"))
    assert error == "c/1 failed with BadReply, for which there was no reason"
    (error,) = errors_of(begun(), failed("CallFailed"))
    assert error == "c/1 failed with CallFailed, for which there was no reason"
    assert not errors_of(begun(), CallerClosed(10, "c"), failed("CallFailed"))
