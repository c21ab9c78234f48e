"""The checker of logs: a value that is where it was sent to, and one that is elsewhere."""

from hutong.testing.simulation.checkers.log_checker import check_log
from hutong.testing.simulation.history import FinalRead, SimulationHistory, ValueRead, ValueSent
from hutong.testing.simulation.world import World

SENT = ("orders", 0)
OTHER = ("orders", 1)


def history() -> SimulationHistory:
    made = SimulationHistory(World(1))
    made.add(ValueSent(1, "p", SENT, b"p/1"))
    return made


def test_a_value_is_in_the_partition_that_it_was_sent_to() -> None:
    sound = history()
    sound.add(ValueRead(2, "r", 1, SENT, 7, b"p/1", False))
    sound.add(FinalRead(SENT, False, 0, ((7, b"p/1"),)))
    assert check_log(sound) == []


def test_a_value_in_another_partition_is_reported_once() -> None:
    wrong = history()
    wrong.add(ValueRead(2, "r", 1, OTHER, 7, b"p/1", False))
    wrong.add(FinalRead(OTHER, False, 0, ((7, b"p/1"),)))
    assert check_log(wrong) == ["b'p/1' is in orders-1 at 7, although sent to orders-0"]
