"""Work that gives way: in the gaps, one at a time, and never starved."""

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import LimitExceeded
from hutong.foundation.timers import TimerWheel
from hutong.runtime.threads.precedence import QUIET_MS, STALLED_MS, Precedence


class Steps:
    """An offload whose work ends when it is told to."""

    def __init__(self, pending_max: int = 1_000) -> None:
        self.begun: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._pending_max = pending_max

    def submit(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        if len(self.begun) >= self._pending_max:
            raise LimitExceeded("steps", self._pending_max)
        self.begun.append((work, then))

    def end(self) -> None:
        work, then = self.begun.popleft()
        then(work())


class Scene:
    def __init__(self, pending_max: int = 1_000) -> None:
        self.clock = ManualClock(monotonic_ms=1_000)
        self.wheel = TimerWheel(self.clock.monotonic_ms(), tick_ms=1)
        self.reads, self.flushes = Steps(pending_max), Steps(pending_max)
        self.precedence = Precedence(self.clock, self.wheel, side_by_side_max=3, patience_ms=10)
        self.first = self.precedence.first(self.flushes)
        self.behind = self.precedence.behind(self.reads)
        self.other_reads = Steps(pending_max)
        self.other = self.precedence.behind(self.other_reads)
        self.told: list[Any] = []

    def read(self, name: str) -> None:
        self.behind.submit(lambda: name, self.told.append)

    def flush(self, then: Callable[[Any], None] | None = None) -> None:
        self.first.submit(lambda: "flushed", then or self.told.append)

    def advance(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())


def test_where_nothing_goes_first_reads_run_side_by_side() -> None:
    scene = Scene()
    for name in "abcde":
        scene.read(name)
    assert len(scene.reads.begun) == 3
    scene.reads.end()
    assert len(scene.reads.begun) == 3
    assert scene.told == ["a"]


def test_a_read_waits_for_the_flush_and_the_next_flush_for_one_read_at_most() -> None:
    scene = Scene()
    scene.flush(lambda _: scene.flush())  # as a flusher does that has more
    scene.read("a")
    scene.read("b")
    assert not scene.reads.begun
    scene.flushes.end()
    assert len(scene.reads.begun) == 1
    assert len(scene.flushes.begun) == 1
    scene.reads.end()
    assert not scene.reads.begun, "the next flush goes first"
    scene.flushes.end()
    assert len(scene.reads.begun) == 1


def test_reads_run_side_by_side_again_after_a_quiet_time() -> None:
    scene = Scene()
    assert not scene.precedence.is_contended
    scene.flush()
    scene.flushes.end()
    assert scene.precedence.is_contended
    for name in "abc":
        scene.read(name)
    assert len(scene.reads.begun) == 1
    scene.advance(QUIET_MS)
    assert not scene.precedence.is_contended
    assert len(scene.reads.begun) == 3


def test_flushes_without_a_gap_do_not_starve_reads() -> None:
    scene = Scene()
    scene.read("before")
    scene.reads.end()
    scene.flush()
    scene.read("a")
    scene.read("b")
    scene.advance(9)
    assert not scene.reads.begun
    scene.advance(1)
    assert len(scene.reads.begun) == 1
    scene.advance(50)
    assert len(scene.reads.begun) == 1, "one at a time"
    scene.reads.end()
    assert len(scene.reads.begun) == 1
    assert scene.precedence.impatient_total == 2


def test_errors_and_refusals_are_handed_on() -> None:
    scene = Scene(pending_max=1)
    scene.flush()
    with pytest.raises(LimitExceeded):
        scene.flush()
    scene.flushes.end()
    scene.advance(QUIET_MS)
    scene.read("a")
    with pytest.raises(LimitExceeded):
        scene.read("b")
    scene.reads.end()
    assert scene.told == ["flushed", "a"]
    assert scene.precedence.in_flight == 0


@pytest.mark.parametrize("is_flushing", [False, True])
def test_a_lane_that_has_stalled_holds_up_no_other(is_flushing: bool) -> None:
    scene = Scene()
    for name in "abcde":
        scene.read(name)
    assert len(scene.reads.begun) == 3, "as many as there are threads for the lane"
    scene.other.submit(lambda: "other", scene.told.append)
    assert not scene.other_reads.begun, "three are at work"
    if is_flushing:
        scene.flush()
    scene.advance(STALLED_MS)
    assert len(scene.other_reads.begun) == 1
    assert len(scene.reads.begun) == 3, "the lane itself waits"
    scene.other_reads.end()
    assert scene.told == ["other"]
    scene.other.submit(lambda: "again", scene.told.append)
    scene.advance(10)
    assert len(scene.other_reads.begun) == 1, "at once from now on"
    scene.reads.end()
    assert len(scene.reads.begun) == (2 if is_flushing else 3)


def test_lanes_take_turns_by_how_long_they_wait() -> None:
    scene = Scene()
    for name in "abcd":
        scene.read(name)
    scene.advance(1)
    scene.other.submit(lambda: "other", scene.told.append)
    scene.advance(1)
    scene.read("e")
    scene.reads.end()
    scene.reads.end()
    assert len(scene.other_reads.begun) == 1
    assert [work() for work, _ in scene.reads.begun] == ["c", "d"]


@given(st.lists(st.tuples(st.sampled_from(["read", "flush", "end read", "end flush", "advance"]), st.integers(1, 30))))
def test_over_any_history_everything_ends_once_and_nothing_waits_for_ever(history: list[tuple[str, int]]) -> None:
    scene = Scene()
    submitted = 0
    for number, (kind, time_ms) in enumerate(history):
        if kind == "read":
            scene.read(f"{number}")
            submitted += 1
        elif kind == "flush":
            scene.flush()
            submitted += 1
        elif kind == "end read" and scene.reads.begun:
            scene.reads.end()
        elif kind == "end flush" and scene.flushes.begun:
            scene.flushes.end()
        elif kind == "advance":
            scene.advance(time_ms)
        assert len(scene.reads.begun) == scene.precedence.in_flight <= 3
    for _ in range(submitted):
        while scene.reads.begun:
            scene.reads.end()
        scene.advance(10)
    assert not scene.precedence.waiting
    while scene.flushes.begun:
        scene.flushes.end()
    assert len(scene.told) == submitted
    assert len([name for name in scene.told if name != "flushed"]) == len(
        {name for name in scene.told if name != "flushed"}
    )
