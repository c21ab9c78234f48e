"""The collector's master: start-up is frozen, collections stay small, dead cycles are found in the end."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from hutong.foundation.clock import ManualClock
from hutong.foundation.timers import TimerWheel
from hutong.runtime.loops.collector import (
    CHECK_INTERVAL_MS,
    PATIENCE_OBJECTS,
    SWEEP_DUE_MS,
    SWEEP_OVERDUE_MS,
    WORTH_OBJECTS,
    YOUNG_LOOKS,
    YOUNG_OBJECTS,
    Collector,
)


class Cycle:
    """Something that only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


class Scene:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self.work_count = 0
        self.collector = Collector(self.clock, self.wheel, lambda: self.work_count)

    def pass_time(self, milliseconds: int, *, busy: bool) -> None:
        for _ in range(milliseconds // CHECK_INTERVAL_MS):
            self.work_count += busy
            self.clock.advance(CHECK_INTERVAL_MS)
            self.wheel.advance(self.clock.monotonic_ms())


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    scene.collector.start()
    yield scene
    scene.collector.stop()


def test_what_start_up_made_is_frozen_and_given_back_at_the_end() -> None:
    thresholds = gc.get_threshold()
    gc.unfreeze()
    scene = Scene()
    scene.collector.start()
    assert gc.get_freeze_count() > 1_000
    assert gc.get_threshold() != thresholds
    scene.collector.stop()
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == thresholds
    assert not any(getattr(callback, "__self__", None) is scene.collector for callback in gc.callbacks)


def test_young_cycles_are_collected_and_counted(scene: Scene) -> None:
    cycle = weakref.ref(Cycle())
    kept = [[] for _ in range(2 * YOUNG_OBJECTS)]  # type: ignore[var-annotated]
    assert cycle() is None
    assert scene.collector.collecting_us.count >= 1
    assert scene.collector.collected_objects_total >= 1
    assert len(kept) == 2 * YOUNG_OBJECTS


def test_what_survives_two_looks_is_not_looked_at_again(scene: Scene) -> None:
    frozen = gc.get_freeze_count()
    kept = [[] for _ in range(20 * YOUNG_OBJECTS)]  # type: ignore[var-annotated]
    assert gc.get_freeze_count() - frozen > 10 * YOUNG_OBJECTS
    assert len(gc.get_objects(generation=2)) < YOUNG_OBJECTS
    assert kept


class Waves:
    """Requests that come together and are answered together, while something else grows slowly."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.waiting: list[list[int]] = []
        self.grown: list[list[int]] = []
        self.most_at_collection = 0

    def pass_checks(self, count: int, *, wave: int = 4 * WORTH_OBJECTS, growth: int = 0) -> int:
        """The number of collections meanwhile."""
        before = self.collector.collecting_us.count
        for number in range(count):
            if number % 5 == 4:
                self.waiting.clear()
                self.grown += [[] for _ in range(growth)]
            else:
                self.waiting += [[] for _ in range(wave // 4)]
            young, collections = gc.get_count()[0], self.collector.collecting_us.count
            self.collector.check()
            if self.collector.collecting_us.count > collections:
                self.most_at_collection = max(self.most_at_collection, young)
        return self.collector.collecting_us.count - before


def test_a_collection_waits_until_few_new_objects_are_alive(scene: Scene) -> None:
    waves = Waves(scene.collector)
    cycle = weakref.ref(Cycle())
    assert 2 <= waves.pass_checks(400, growth=WORTH_OBJECTS // 10) <= 40
    assert waves.most_at_collection < 2 * WORTH_OBJECTS, "not those of the requests that wait"
    assert cycle() is None


def test_patience_ends_where_many_are_alive_all_the_time(scene: Scene) -> None:
    kept = [[] for _ in range(3 * WORTH_OBJECTS)]  # type: ignore[var-annotated]
    checks = 0
    while not scene.collector.collecting_us.count:
        scene.collector.check()
        checks += 1
    assert WORTH_OBJECTS // PATIENCE_OBJECTS <= checks <= 3 * WORTH_OBJECTS // PATIENCE_OBJECTS
    assert kept


def test_what_survives_several_collections_is_frozen(scene: Scene) -> None:
    waves, frozen = Waves(scene.collector), gc.get_freeze_count()
    waves.pass_checks(100 * YOUNG_LOOKS, growth=WORTH_OBJECTS // 5)
    assert gc.get_freeze_count() - frozen > WORTH_OBJECTS


def test_growth_that_no_check_sees_is_collected_by_the_interpreter_and_frozen(scene: Scene) -> None:
    frozen = gc.get_freeze_count()
    kept = [[] for _ in range(2 * YOUNG_OBJECTS)]  # type: ignore[var-annotated]
    assert scene.collector.collecting_us.count >= 1
    assert gc.get_freeze_count() - frozen > YOUNG_OBJECTS // 2, "a second look would take as long as the first"
    assert kept


def test_a_collector_that_is_not_started_never_collects() -> None:
    """A node inside a program leaves the program's collector alone."""
    scene, thresholds, runs = Scene(), gc.get_threshold(), gc.get_stats()[0]["collections"]
    gc.disable()
    try:
        Waves(scene.collector).pass_checks(100, growth=WORTH_OBJECTS)
        assert gc.get_stats()[0]["collections"] == runs
    finally:
        gc.enable()
    assert gc.get_threshold() == thresholds


def frozen_cycle() -> "weakref.ref[Cycle]":
    """A cycle that was alive when it was frozen, and is not any more."""
    cycle = Cycle()
    gc.freeze()
    return weakref.ref(cycle)


def test_a_cycle_that_was_frozen_alive_goes_when_a_sweep_is_due_and_nobody_works(scene: Scene) -> None:
    cycle = frozen_cycle()
    scene.pass_time(SWEEP_DUE_MS + CHECK_INTERVAL_MS, busy=True)
    gc.collect()
    assert cycle() is not None
    scene.pass_time(CHECK_INTERVAL_MS, busy=False)
    assert cycle() is None
    assert scene.collector.sweeps_total == 2


def test_a_sweep_does_not_wait_for_ever_for_a_quiet_moment(scene: Scene) -> None:
    cycle = frozen_cycle()
    scene.pass_time(SWEEP_OVERDUE_MS + CHECK_INTERVAL_MS, busy=True)
    assert cycle() is None


def test_nothing_is_looked_at_before_a_sweep_is_nearly_due(scene: Scene) -> None:
    """A timer that looks each second would wake an idle machine each second."""
    fired = 0
    for _ in range(SWEEP_DUE_MS // CHECK_INTERVAL_MS - 2):
        scene.clock.advance(CHECK_INTERVAL_MS)
        fired += scene.wheel.advance(scene.clock.monotonic_ms())
    assert fired == 0
    scene.pass_time(3 * CHECK_INTERVAL_MS, busy=False)
    assert scene.collector.sweeps_total == 2
