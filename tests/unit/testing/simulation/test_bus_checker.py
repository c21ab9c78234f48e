"""The promises of the event bus, each broken once by a history made by hand."""

from hutong.testing.simulation.call_history import BusMessageReceived, BusMessageSent, CallHappening
from hutong.testing.simulation.checkers.bus_checker import check_bus
from hutong.testing.simulation.history import SimulationHistory
from hutong.testing.simulation.world import World


def errors_of(*happenings: CallHappening) -> list[str]:
    history = SimulationHistory(World(1))
    for happening in happenings:
        history.add(happening)
    return check_bus(history)


def sent(number: int, *, address: str = "news", session: int = 1, is_publication: bool = True) -> CallHappening:
    return BusMessageSent(1, "a", session, number, address, is_publication)


def received(
    number: int, *, client: str = "b", session: int = 1, address: str = "news", sender_session: int = 1
) -> CallHappening:
    return BusMessageReceived(2, client, session, address, "a", sender_session, number)


def test_a_sound_history() -> None:
    assert not errors_of(
        *[sent(number, is_publication=number != 2) for number in range(1, 5)],
        sent(5, address="jobs", is_publication=False),
        sent(1, session=2),
        received(1),
        received(3),  # the second was for one listener, and another got it
        received(5, address="jobs"),
        received(4),  # another address: no order with it
        received(1, client="c"),
        received(2, session=2),  # another listener of the receiver, after a loss
        received(1, sender_session=2),
    )


def test_messages_arrive_in_another_order() -> None:
    (error,) = errors_of(sent(1), sent(2), received(2), received(1))
    assert error == "b received a 1/1 at news after 2"


def test_a_publication_is_skipped() -> None:
    (error,) = errors_of(sent(1), sent(2), sent(3), received(1), received(3))
    assert error == "b received a 1/3 at news, and a 1/2 was skipped"
    assert not errors_of(sent(1), sent(2), sent(3), received(2), received(3)), "it listens since the second"
    assert not errors_of(sent(1), sent(2), sent(3), received(1), received(3, session=2)), "its connection has ended"


def test_a_message_arrives_twice() -> None:
    (error,) = errors_of(sent(1), received(1), received(1))
    assert error == "b received a 1/1 at news after 1"


def test_a_message_for_one_arrives_at_two() -> None:
    (error,) = errors_of(sent(1, is_publication=False), received(1), received(1, client="c"))
    assert error == "c received a 1/1 at news, and so did b"


def test_a_message_was_never_sent() -> None:
    (error,) = errors_of(received(1))
    assert error == "b received a 1/1 at news, where nobody had sent it"
    (error,) = errors_of(sent(1), received(1, address="jobs"))
    assert error == "b received a 1/1 at jobs, where nobody had sent it"
