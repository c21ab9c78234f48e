"""The loop: what asyncio promises, virtual time, and what the seed may choose."""

import asyncio

import pytest
from tests.unit.testing.simulation.scene import SECOND_US, Scene


def test_a_sleeper_wakes_at_its_time_and_nobody_waits() -> None:
    scene = Scene()

    async def sleeper() -> float:
        await asyncio.sleep(3_600)
        return asyncio.get_running_loop().time()

    assert scene.run(scene.one, sleeper, seconds=4_000) == pytest.approx(3_600, abs=0.01)
    assert scene.world.now_us == pytest.approx(3_600 * SECOND_US, abs=10_000)


def test_callbacks_keep_their_order_and_come_in_the_next_iteration() -> None:
    scene = Scene()

    async def main() -> list[str]:
        seen: list[str] = []
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        for name in "abc":
            loop.call_soon(seen.append, name)
        loop.call_soon(loop.call_soon, seen.append, "later")
        loop.call_soon(seen.append, "d")
        loop.call_later(0.1, ready.set)
        await ready.wait()
        return seen

    assert scene.run(scene.one, main) == ["a", "b", "c", "d", "later"]


def _timer_order(seed: int) -> list[int]:
    scene = Scene(seed)

    async def main() -> list[int]:
        seen: list[int] = []
        for number in range(8):
            asyncio.get_running_loop().call_later(1, seen.append, number)
        await asyncio.sleep(2)
        return seen

    order: list[int] = scene.run(scene.one, main)
    return order


def test_timers_due_at_once_come_in_an_order_that_the_seed_draws() -> None:
    assert _timer_order(3) == _timer_order(3)
    assert len({tuple(_timer_order(seed)) for seed in range(5)}) > 1


def test_tasks_wait_for_each_other() -> None:
    scene = Scene()

    async def main() -> list[int]:
        async def number(value: int) -> int:
            await asyncio.sleep(value)
            return value

        return list(await asyncio.gather(number(2), number(1)))

    assert scene.run(scene.one, main) == [2, 1]


def test_code_that_asks_the_clock_again_and_again_comes_to_an_end() -> None:
    scene = Scene()

    async def main() -> int:
        loop, rounds = asyncio.get_running_loop(), 0
        while loop.time() < 0.01:
            await asyncio.sleep(0)
            rounds += 1
        return rounds

    assert scene.run(scene.one, main) > 10


def test_a_callback_that_fails_is_a_failure_of_its_host() -> None:
    scene = Scene()

    async def main() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    scene.run(scene.one, main)
    ((sentence, error),) = scene.one.failures
    assert isinstance(error, ZeroDivisionError)
    assert "test_loop.py" in sentence


def test_a_killed_process_does_nothing_more() -> None:
    scene = Scene()
    seen: list[str] = []

    async def main() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            seen.append("last words")
            asyncio.get_running_loop().call_soon(seen.append, "never")

    scene.process(scene.one).run(main)
    scene.pass_seconds(1)
    scene.one.kill()
    scene.pass_seconds(100)
    assert seen == ["last words"]
    assert scene.one.process is None
    scene.one.start()


def test_a_stopped_process_goes_on_later_with_all_its_timers_due() -> None:
    scene = Scene()
    seen: list[float] = []

    async def main() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            seen.append(asyncio.get_running_loop().time())

    scene.process(scene.one).run(main)
    scene.pass_seconds(0.5)
    scene.process(scene.one).stop_until(60 * SECOND_US)
    scene.pass_seconds(59)
    assert seen == []
    scene.pass_seconds(10)
    assert seen[0] == pytest.approx(60, abs=0.01)
    assert len(seen) == 3


@pytest.mark.parametrize("drift_ppm", [-50_000, 50_000])
def test_a_clock_that_drifts_shows_another_time_and_fires_its_timers_by_it(drift_ppm: int) -> None:
    scene = Scene()
    scene.one.kill()
    scene.one.drift_ppm = drift_ppm
    scene.one.start()

    async def main() -> float:
        await asyncio.sleep(100)
        return asyncio.get_running_loop().time()

    assert scene.run(scene.one, main, seconds=200) == pytest.approx(100, abs=0.01)
    assert scene.world.now_us == pytest.approx(100 * SECOND_US / (1 + drift_ppm / 1e6), abs=10_000)


def test_the_wall_clock_jumps_and_the_other_does_not() -> None:
    scene = Scene()
    clock = scene.process(scene.one).clock
    monotonic_ms, wall_ms = clock.monotonic_ms(), clock.wall_ms()
    scene.one.wall_offset_us -= 5 * SECOND_US
    assert (clock.monotonic_ms(), clock.wall_ms()) == (monotonic_ms, wall_ms - 5_000)
