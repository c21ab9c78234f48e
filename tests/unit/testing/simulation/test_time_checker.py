"""The checker of look-ups by time: sound answers, and wrong ones."""

import pytest

from hutong.testing.simulation.checkers.time_checker import check_times
from hutong.testing.simulation.clients.times import MAX_TIMESTAMP
from hutong.testing.simulation.history import FinalTimes, SimulationHistory
from hutong.testing.simulation.world import World

RECORDS = ((0, 10), (1, 30), (2, 20), (4, 30))


def errors_of(*answers: tuple[int, int, int]) -> list[str]:
    history = SimulationHistory(World(1))
    history.add(FinalTimes(("orders", 0), RECORDS, answers))
    return check_times(history)


def test_the_first_record_that_is_not_older_is_right() -> None:
    assert not errors_of((0, 0, 10), (10, 0, 10), (11, 1, 30), (20, 1, 30), (30, 1, 30), (31, -1, -1))
    assert not errors_of((MAX_TIMESTAMP, 1, 30))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((11, 2, 20), "orders-0 has the time 11 at 2 (20) instead of 1 (30)"),
        ((30, 4, 30), "orders-0 has the time 30 at 4 (30) instead of 1 (30)"),
        ((30, -1, -1), "orders-0 has the time 30 at -1 (-1) instead of 1 (30)"),
        ((MAX_TIMESTAMP, 2, 20), "orders-0 has the newest time at 2 (20) instead of 1 (30)"),
    ],
)
def test_any_other_record_is_wrong(answer: tuple[int, int, int], error: str) -> None:
    assert errors_of(answer) == [error]
