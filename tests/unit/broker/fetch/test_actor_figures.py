"""Figures of actors: many names share one row, and a name that is not used any more gives its row away."""

from hutong.broker.fetch.actor_figures import IDLE_MS, NAMED_MAX, OTHERS, ActorFigures
from hutong.broker.fetch.actors import Actor


def actor(number: int) -> Actor:
    return Actor("t", (f"g{number}",))


def test_each_actor_has_figures_of_its_own_and_above_the_bound_all_others_have_them_together() -> None:
    figures = ActorFigures()
    for number in range(NAMED_MAX + 5):
        figures.of(actor(number), 0).bytes_total += 10
    found = {name: each.bytes_total for name, each in figures}
    assert len(found) == NAMED_MAX + 1
    assert found[actor(0)] == 10
    assert found[OTHERS] == 50


def test_a_name_that_was_idle_for_long_gives_its_place_to_a_newcomer() -> None:
    figures = ActorFigures()
    for number in range(NAMED_MAX):
        figures.of(actor(number), 0)
    figures.of(actor(0), 1)
    figures.of(actor(100), IDLE_MS).bytes_total += 1
    names = [name for name, _ in figures]
    assert actor(1) not in names
    assert {actor(0), actor(100)} <= set(names)


def test_a_name_with_a_read_on_its_way_keeps_its_place() -> None:
    figures = ActorFigures()
    for number in range(NAMED_MAX):
        figures.of(actor(number), 0).queued = 1
    assert figures.of(actor(100), 2 * IDLE_MS) is dict(figures)[OTHERS]
