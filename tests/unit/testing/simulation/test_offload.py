"""Workers without threads: effects and results at moments that the seed draws."""

from typing import Any

from tests.unit.testing.simulation.scene import Scene

from hutong.testing.simulation.hosts.offload import SimOffload


def _offload(scene: Scene, workers: int, delay_us: int = 0) -> SimOffload:
    return SimOffload(scene.process(scene.one), workers, "disk", 100, lambda: delay_us)


def test_one_worker_keeps_the_order_and_several_do_not() -> None:
    def finished(workers: int, seed: int) -> list[int]:
        scene = Scene(seed)
        seen: list[Any] = []
        offload = _offload(scene, workers)
        for number in range(10):
            offload.submit(lambda number=number: number, seen.append)  # type: ignore[misc]
        scene.pass_seconds(1)
        assert sorted(seen) == list(range(10))
        return seen

    assert finished(1, seed=1) == list(range(10))
    assert any(finished(4, seed=seed) != list(range(10)) for seed in range(3))


def test_an_error_is_a_result() -> None:
    scene = Scene()
    seen: list[Any] = []
    _offload(scene, 1).submit(lambda: 1 // 0, seen.append)
    scene.pass_seconds(1)
    assert isinstance(seen[0], ZeroDivisionError)


def test_a_device_adds_its_delay() -> None:
    scene = Scene()
    seen: list[Any] = []
    _offload(scene, 1, delay_us=5_000_000).submit(lambda: "done", seen.append)
    scene.pass_seconds(4)
    assert seen == []
    scene.pass_seconds(4)
    assert seen == ["done"]


def test_a_crash_may_come_between_the_effect_and_its_result() -> None:
    found = set()
    for seed in range(20):
        scene = Scene(seed)
        effects: list[int] = []
        results: list[Any] = []
        _offload(scene, 1, delay_us=1_000_000).submit(lambda effects=effects: effects.append(1), results.append)  # type: ignore[misc]
        scene.pass_seconds(0.5)
        scene.one.kill()
        scene.pass_seconds(5)
        assert results == []
        found.add(len(effects))
    assert found == {0, 1}


def test_a_close_finishes_what_was_submitted() -> None:
    scene = Scene()
    seen: list[Any] = []
    offload = _offload(scene, 1)
    for number in range(3):
        offload.submit(lambda number=number: number, seen.append)  # type: ignore[misc]
    offload.close()
    scene.pass_seconds(1)
    assert sorted(seen) == [0, 1, 2]


def test_a_crash_meets_a_job_before_its_effect() -> None:
    for seed in range(10):
        scene = Scene(seed)
        seen: list[str] = []
        offload = _offload(scene, 1, delay_us=1_000_000)
        scene.process(scene.one).meet_job(1, lambda seen=seen: seen.append("crash"))  # type: ignore[misc]
        for name in ("first", "second", "third"):
            offload.submit(lambda name=name, seen=seen: seen.append(name), lambda _: None)  # type: ignore[misc]
        scene.pass_seconds(10)
        assert seen == ["first", "crash", "second", "third"]
