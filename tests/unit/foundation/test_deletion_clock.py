"""A clock that jumped ahead deletes nothing until it has kept its new time."""

import pytest

from hutong.foundation.clock import ManualClock
from hutong.foundation.deletion_clock import JUMP_MS_MIN, DeletionClock

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS


class Scene:
    def __init__(self, known_before_ms: int | None = None, hold_ms: int = HOUR_MS) -> None:
        self.clock = ManualClock()
        self.told: list[str] = []
        known_ms = None if known_before_ms is None else self.clock.wall_ms() - known_before_ms
        self.time = DeletionClock(self.clock, hold_ms=hold_ms, known_ms=known_ms, notify=self.told.append)
        self.begun_ms = self.clock.wall_ms()

    def passed_ms(self) -> int:
        return self.time.now_ms() - self.begun_ms


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_it_is_the_wall_clock_while_that_goes_on_evenly(scene: Scene) -> None:
    for _ in range(5):
        scene.clock.advance(HOUR_MS)
        assert scene.time.now_ms() == scene.clock.wall_ms()
    scene.clock.jump(JUMP_MS_MIN)
    assert scene.time.now_ms() == scene.clock.wall_ms(), "a small correction"
    assert scene.told == []


@pytest.mark.parametrize("jump_ms", [JUMP_MS_MIN + 1, 3 * HOUR_MS, 50 * YEAR_MS])
def test_a_jump_counts_when_it_has_lasted(scene: Scene, jump_ms: int) -> None:
    scene.clock.jump(jump_ms)
    assert scene.passed_ms() == 0
    scene.clock.advance(HOUR_MS - 1)
    assert scene.passed_ms() == HOUR_MS - 1, "time goes on meanwhile"
    assert scene.time.ahead_ms == jump_ms
    scene.clock.advance(1)
    assert scene.passed_ms() == HOUR_MS + jump_ms
    assert scene.time.ahead_ms == 0
    assert len(scene.told) == 2


def test_a_clock_that_comes_back_has_deleted_nothing(scene: Scene) -> None:
    scene.clock.jump(YEAR_MS)
    assert scene.passed_ms() == 0
    scene.clock.jump(-YEAR_MS)
    scene.clock.advance(2 * HOUR_MS)
    assert scene.passed_ms() == 2 * HOUR_MS
    assert len(scene.told) == 2


def test_a_second_jump_waits_anew(scene: Scene) -> None:
    scene.clock.jump(3 * HOUR_MS)
    scene.time.now_ms()
    scene.clock.advance(HOUR_MS // 2)
    scene.clock.jump(YEAR_MS)
    scene.time.now_ms()
    scene.clock.advance(HOUR_MS - 1)
    assert scene.passed_ms() == HOUR_MS // 2 + HOUR_MS - 1


def test_a_clock_that_is_set_back_is_believed(scene: Scene) -> None:
    scene.clock.jump(-YEAR_MS)
    assert scene.passed_ms() == -YEAR_MS


def test_a_start_with_a_clock_far_ahead_of_the_last_use_waits() -> None:
    scene = Scene(known_before_ms=YEAR_MS)
    assert scene.passed_ms() == -YEAR_MS
    scene.clock.advance(HOUR_MS)
    assert scene.passed_ms() == HOUR_MS


def test_a_last_use_in_the_future_is_no_reason_to_delete() -> None:
    scene = Scene(known_before_ms=-YEAR_MS)
    assert scene.passed_ms() == 0


def test_without_a_hold_every_clock_is_believed() -> None:
    scene = Scene(known_before_ms=YEAR_MS, hold_ms=0)
    assert scene.passed_ms() == 0
    scene.clock.jump(YEAR_MS)
    assert scene.passed_ms() == YEAR_MS
