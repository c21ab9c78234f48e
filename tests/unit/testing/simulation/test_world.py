"""Virtual time: order, chance from the seed, and the trace."""

import pytest

from hutong.testing.simulation.world import World


def test_events_happen_in_the_order_of_their_times_and_not_after_the_end() -> None:
    world, seen = World(1), []
    for at_us in (30, 10, 20, 41):
        world.at(at_us, lambda at_us=at_us: seen.append((at_us, world.now_us)))  # type: ignore[misc]
    world.run(40)
    assert seen == [(10, 10), (20, 20), (30, 30)]
    assert world.now_us == 40


def test_a_cancelled_event_does_not_happen() -> None:
    world, seen = World(1), []
    world.at(5, lambda: seen.append(5)).cancel()
    world.run(10)
    assert seen == []


def test_the_past_is_now() -> None:
    world, seen = World(1), []
    world.run(100)
    world.at(7, lambda: seen.append(world.now_us))
    world.run(100)
    assert seen == [100]


def _order(seed: int) -> list[int]:
    world, seen = World(seed), []
    for number in range(10):
        world.at(5, lambda number=number: seen.append(number))  # type: ignore[misc]
    world.run(5)
    return seen


def test_the_seed_draws_the_order_of_what_is_due_at_once() -> None:
    assert _order(1) == _order(1)
    assert len({tuple(_order(seed)) for seed in range(5)}) == 5


def test_a_run_stops_early_when_it_is_done() -> None:
    world, seen = World(1), []
    for at_us in (1, 2, 3):
        world.at(at_us, lambda at_us=at_us: seen.append(at_us))  # type: ignore[misc]
    world.run(10, lambda: len(seen) == 2)
    assert (seen, world.now_us) == ([1, 2], 2)


def test_streams_of_other_names_are_others_and_the_same_for_a_seed() -> None:
    assert World(1).random("a").random() == World(1).random("a").random()
    assert World(1).random("a").random() != World(1).random("b").random()


@pytest.mark.parametrize("keeps_trace", [True, False])
def test_the_hash_is_that_of_all_lines(keeps_trace: bool) -> None:
    def hash_of(*sentences: str) -> str:
        world = World(1, keeps_trace=keeps_trace)
        for sentence in sentences:
            world.note("node", sentence)
        assert len(world.lines) == (len(sentences) if keeps_trace else 0)
        return world.trace_hash

    assert hash_of("a", "b") == hash_of("a", "b")
    assert hash_of("a", "b") != hash_of("b", "a")
