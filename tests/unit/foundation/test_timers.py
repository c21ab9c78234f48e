"""The timer wheel: never early, at most a tick late, each timer once, whatever the jumps of time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.timers import HORIZON_TICKS, Timer, TimerWheel


def test_a_timer_fires_in_the_first_tick_at_or_after_its_deadline() -> None:
    wheel, fired = TimerWheel(7, tick_ms=10), list[str]()
    wheel.add(107, lambda: fired.append("on the tick"))
    wheel.add(108, lambda: fired.append("one past it"))
    assert wheel.advance(106) == 0
    assert wheel.advance(107) == 1
    assert wheel.advance(116) == 0
    assert wheel.advance(117) == 1
    assert fired == ["on the tick", "one past it"]


def test_a_past_deadline_fires_one_tick_from_now() -> None:
    wheel = TimerWheel(0)
    wheel.advance(1_000)
    wheel.add(3, lambda: None)
    assert wheel.advance(1_009) == 0
    assert wheel.advance(1_010) == 1


def test_a_cancelled_timer_never_fires_and_says_whether_it_would_have() -> None:
    wheel, fired = TimerWheel(0), list[int]()
    timer = wheel.add(50, lambda: fired.append(1))
    assert timer.is_waiting
    assert timer.cancel()
    assert not timer.cancel()
    assert len(wheel) == 0
    assert wheel.next_deadline_ms() is None
    wheel.advance(1_000)
    assert fired == []


def test_a_callback_may_cancel_a_timer_of_its_own_tick() -> None:
    wheel, fired = TimerWheel(0), list[str]()

    def cancel_the_other() -> None:
        fired.append("first")
        assert second.cancel()

    wheel.add(10, cancel_the_other)
    second = wheel.add(10, lambda: fired.append("second"))
    assert wheel.advance(10) == 1
    assert fired == ["first"]
    assert len(wheel) == 0


def test_a_callback_that_raises_does_not_lose_the_others() -> None:
    wheel, fired = TimerWheel(0), list[str]()

    def fail() -> None:
        raise ZeroDivisionError

    wheel.add(10, fail)
    wheel.add(10, lambda: fired.append("same tick"))
    wheel.add(5_000, lambda: fired.append("far"))
    with pytest.raises(ZeroDivisionError):
        wheel.advance(5_000)
    wheel.check_invariants()
    assert wheel.next_deadline_ms() == 10
    assert wheel.advance(5_000) == 2
    assert fired == ["same tick", "far"]


def test_the_driver_is_told_of_earlier_timers_only() -> None:
    wheel, told = TimerWheel(0, tick_ms=1), list[int]()
    wheel.add(40, lambda: None)
    wheel.drive(told.append)
    wheel.add(50, lambda: None)
    wheel.add(30, lambda: None)
    assert told == [40, 30]
    wheel.advance(30)
    assert told == [40, 30, 40]
    wheel.advance(60)
    assert told == [40, 30, 40]
    wheel.add(63, lambda: None)
    assert told == [40, 30, 40, 63]


def test_timers_added_by_callbacks_are_announced_once_at_the_end() -> None:
    wheel, told = TimerWheel(0, tick_ms=1), list[int]()
    wheel.add(10, lambda: [wheel.add(at_ms, lambda: None) for at_ms in (60, 50, 40)].clear())
    wheel.drive(told.append)
    wheel.advance(10)
    assert told == [10, 40]


def test_a_deadline_beyond_the_horizon_is_kept() -> None:
    wheel = TimerWheel(0)
    wheel.add(2**63, lambda: None)
    wheel.check_invariants()
    assert wheel.advance(HORIZON_TICKS * 10 - 1) == 0
    assert wheel.advance(HORIZON_TICKS * 10) == 1


def test_a_tick_has_a_length() -> None:
    with pytest.raises(ValueError, match="at least one millisecond"):
        TimerWheel(0, tick_ms=0)


delays_ms = st.one_of(st.integers(-50, 300), st.integers(0, 10**5), st.integers(0, 10**9))
steps = st.lists(st.tuples(st.sampled_from(["add", "cancel", "pass"]), delays_ms), max_size=60)


@given(steps, st.integers(1, 20), st.integers(0, 10**6))
def test_every_timer_fires_once_and_in_time(script: list[tuple[str, int]], tick_ms: int, start_ms: int) -> None:
    wheel, now_tick = TimerWheel(start_ms, tick_ms), 0
    now_ms = start_ms
    waiting: dict[int, tuple[int, Timer]] = {}  # number -> the tick it is due in
    fired: set[int] = set()
    for number, (kind, value) in enumerate(script):
        if kind == "add":
            timer = wheel.add(now_ms + value, lambda n=number: fired.add(n))  # type: ignore[misc]
            due_tick = -((start_ms - now_ms - value) // tick_ms)
            waiting[number] = max(now_tick + 1, due_tick), timer
        elif kind == "cancel" and waiting:
            _, timer = waiting.pop(sorted(waiting)[value % len(waiting)])
            assert timer.cancel()
        elif kind == "pass":
            promised_ms = wheel.next_deadline_ms()
            now_ms += abs(value)
            now_tick = (now_ms - start_ms) // tick_ms
            fired.clear()
            assert wheel.advance(now_ms) == len(fired)
            assert fired == {n for n, (tick, _) in waiting.items() if tick <= now_tick}
            assert not fired or (promised_ms is not None and promised_ms <= now_ms)
            for n in fired:
                del waiting[n]
        assert len(wheel) == len(waiting)
        wheel.check_invariants()


def test_a_callback_sees_the_time_that_it_fires_at() -> None:
    wheel, seen = TimerWheel(1000), []
    for deadline_ms in (1015, 2000):
        wheel.add(deadline_ms, lambda: seen.append(wheel.now_ms))
    assert wheel.now_ms == 1000
    wheel.advance(5000)
    assert seen == [1020, 2000]
    assert wheel.now_ms == 5000
