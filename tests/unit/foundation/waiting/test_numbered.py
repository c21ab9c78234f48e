"""The numbered wait table: each wait ends once, never early, hardly late; bounded, counted, and safe among threads."""

import threading
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import Expired, HutongError, LimitExceeded, Refused
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.numbered import (
    BLOCK_MAX,
    EXPIRED_TOGETHER_MAX,
    LATE_MS_MAX,
    SHORT_BITS,
    SHORT_GENERATIONS,
    NumberedWait,
    NumberedWaitTable,
    ShortNumbers,
)
from hutong.foundation.waiting.table import NEVER


class Noted(NumberedWait[str]):
    """Keeps its outcomes, which should be one."""

    def __init__(self) -> None:
        self.outcomes: list[str | HutongError] = []

    def end(self, outcome: str | HutongError) -> None:
        self.outcomes.append(outcome)


class Scene:
    """A table with its wheel and a clock moved by hand."""

    def __init__(self, capacity: int = 100) -> None:
        self.clock = ManualClock()
        self.wheel = TimerWheel(0)
        self.posted: deque[Callable[[], None]] = deque()
        self.waits: NumberedWaitTable[str] = NumberedWaitTable(
            "replies", self.wheel, self.clock, capacity, self.posted.append
        )

    def park(self, timeout_ms: int = 1000) -> Noted:
        wait = Noted()
        self.waits.queue(timeout_ms).park(wait)
        return wait

    def turn(self) -> None:
        """As a loop does with what is posted: what comes meanwhile has the next turn."""
        for _ in range(len(self.posted)):
            self.posted.popleft()()

    def check(self) -> None:
        self.turn()
        self.waits.check_invariants()

    def pass_time(self, milliseconds: int) -> None:
        """As a loop does: the wheel is advanced when it asks to be."""
        self.turn()
        until_ms = self.clock.monotonic_ms() + milliseconds
        while (next_ms := self.wheel.next_deadline_ms()) is not None and next_ms <= until_ms:
            self.clock.advance(max(0, next_ms - self.clock.monotonic_ms()))
            self.wheel.advance(next_ms)
            self.turn()
        self.clock.advance(until_ms - self.clock.monotonic_ms())
        self.wheel.advance(until_ms)
        self.turn()


def test_a_wait_ends_once_with_its_value() -> None:
    scene = Scene()
    wait = scene.park()
    assert wait.is_waiting
    assert scene.waits.numbers.find(wait._number) is wait
    assert wait.resume("value")
    assert not wait.resume("again")
    assert not wait.fail(Refused(1))
    assert not wait.abandon()
    assert wait.outcomes == ["value"]
    assert scene.waits.numbers.find(wait._number) is None
    assert (scene.waits.parked_total, scene.waits.resumed_total, len(scene.waits)) == (1, 1, 0)
    scene.check()


@pytest.mark.parametrize("timeout_ms", [1, 15, 100, 1001, 30_000])
def test_a_wait_expires_not_early_and_hardly_late(timeout_ms: int) -> None:
    scene = Scene()
    wait = scene.park(timeout_ms)
    scene.pass_time(timeout_ms - 1)
    assert wait.is_waiting
    scene.pass_time(1 + timeout_ms // 8 + LATE_MS_MAX)
    assert [type(outcome) for outcome in wait.outcomes] == [Expired]
    assert (scene.waits.expired_total, len(scene.waits), len(scene.wheel)) == (1, 0, 0)
    scene.check()


def test_a_wait_without_a_timeout_stays_and_needs_no_timer() -> None:
    scene = Scene()
    wait = scene.park(NEVER)
    scene.pass_time(10**9)
    assert wait.is_waiting
    assert len(scene.wheel) == 0


def test_a_line_in_which_nobody_stands_has_no_timer_and_no_generation() -> None:
    scene = Scene()
    for _ in range(50):
        scene.park().resume("value")
        scene.pass_time(100)
    scene.pass_time(200)
    assert len(scene.wheel) == 0
    assert not scene.waits.numbers._generations
    assert scene.park().is_waiting
    scene.turn()
    assert len(scene.wheel) == 1


def test_thousands_of_timeouts_make_few_lines() -> None:
    scene = Scene(capacity=20_000)
    for timeout_ms in range(1, 10_001):
        scene.park(timeout_ms)
    assert len(scene.waits._queues) < 200
    scene.check()


def test_the_bound_is_exact_across_lines() -> None:
    scene = Scene(capacity=10)
    waits = [scene.park(timeout_ms) for timeout_ms in (100, 1000, 5000, NEVER, 100, 1000, 5000, NEVER, 100, 100)]
    with pytest.raises(LimitExceeded, match="replies is 10"):
        scene.park(20)
    waits[3].abandon()
    scene.park(20)
    with pytest.raises(LimitExceeded):
        scene.park(100)
    assert (len(scene.waits), scene.waits.parked_total, scene.waits.abandoned_total) == (10, 11, 1)
    scene.check()


def test_more_than_a_block_is_parked() -> None:
    scene = Scene(capacity=3 * BLOCK_MAX)
    waits = [scene.park() for _ in range(3 * BLOCK_MAX)]
    assert len({wait._number for wait in waits}) == len(waits)
    with pytest.raises(LimitExceeded):
        scene.park()
    scene.check()


def test_a_closed_lot_fails_what_waits_and_what_comes() -> None:
    scene = Scene()
    error = Refused(1)
    waits = [scene.park(timeout_ms) for timeout_ms in (100, 200, NEVER)]
    assert scene.waits.close(error) == 3
    scene.turn()
    waits.append(scene.park())
    assert [wait.outcomes for wait in waits] == [[error]] * 4
    assert not waits[3].is_waiting
    assert (scene.waits.failed_total, scene.waits.parked_total, len(scene.wheel)) == (4, 4, 0)
    scene.check()


def test_many_expire_over_several_turns() -> None:
    scene = Scene(capacity=3 * EXPIRED_TOGETHER_MAX)
    waits = [scene.park(10) for _ in range(2 * EXPIRED_TOGETHER_MAX + 1)]
    scene.pass_time(10)
    scene.clock.advance(30)
    scene.wheel.advance(scene.clock.monotonic_ms())
    assert scene.waits.expired_total == EXPIRED_TOGETHER_MAX
    scene.turn()
    assert scene.waits.expired_total == 2 * EXPIRED_TOGETHER_MAX
    scene.turn()
    assert scene.waits.expired_total == 2 * EXPIRED_TOGETHER_MAX + 1
    assert all(len(wait.outcomes) == 1 for wait in waits)


def test_an_end_that_raises_loses_no_other() -> None:
    class Broken(NumberedWait[str]):
        def end(self, outcome: str | HutongError) -> None:
            raise ZeroDivisionError

    scene = Scene()
    scene.waits.queue(100).park(Broken())
    wait = scene.park(100)
    with pytest.raises(ZeroDivisionError):
        scene.pass_time(200)
    scene.pass_time(100)
    assert len(wait.outcomes) == 1
    scene.check()


def test_what_meets_a_generation_as_it_closes_is_parked_in_the_next() -> None:
    scene = Scene()
    scene.park(1000)
    queue = scene.waits.queue(1000)
    generation = queue._open

    class Closing(dict[int, NumberedWait[str]]):
        """Another thread closes the generation just before the entry."""

        def __setitem__(self, number: int, wait: NumberedWait[str]) -> None:
            scene.waits._close_generation(queue, scene.clock.monotonic_ms())
            super().__setitem__(number, wait)

    generation.waiting = Closing(generation.waiting)
    late = scene.park(1000)
    assert late._generation is not generation
    scene.pass_time(999)
    assert late.is_waiting
    scene.check()


def test_threads_that_park_resume_and_expire_lose_nothing() -> None:
    scene = Scene(capacity=1_000_000)
    waits: list[list[Noted]] = [[] for _ in range(4)]

    def work(mine: list[Noted]) -> None:
        for index in range(5_000):
            wait = scene.park(50)
            mine.append(wait)
            if index % 2:
                mine[index - 1].resume("value")

    threads = [threading.Thread(target=work, args=(mine,)) for mine in waits]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        scene.pass_time(7)
    for thread in threads:
        thread.join()
    while len(scene.waits):
        scene.pass_time(50)
    assert all(len(wait.outcomes) == 1 for mine in waits for wait in mine)
    assert scene.waits.parked_total == 20_000
    assert scene.waits.resumed_total + scene.waits.expired_total == 20_000
    scene.check()


STEPS = st.one_of(
    st.tuples(st.just("park"), st.sampled_from([NEVER, 1, 10, 45, 300, 301, 2000])),
    st.tuples(st.sampled_from(["resume", "fail", "abandon"]), st.integers(0, 40)),
    st.tuples(st.just("pass"), st.integers(0, 700)),
)


@hypothesis_settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_a_numbered_wait_table_is_a_bounded_set_of_waits_with_deadlines(script: list[tuple[str, int]]) -> None:
    scene = Scene(capacity=8)
    waits: list[Noted] = []
    waiting: dict[int, tuple[int, int]] = {}  # index of the wait: earliest and latest millisecond of its expiry
    for step, amount in script:
        now_ms = scene.clock.monotonic_ms()
        if step == "park":
            if len(waiting) == 8:
                with pytest.raises(LimitExceeded):
                    scene.park(amount)
                continue
            earliest_ms = 1 << 60 if amount == NEVER else now_ms + amount
            waiting[len(waits)] = earliest_ms, earliest_ms + max(amount, 0) // 8 + LATE_MS_MAX
            waits.append(scene.park(amount))
        elif step == "pass":
            scene.pass_time(amount)
            now_ms += amount
            expired = [index for index in waiting if not waits[index].is_waiting]
            assert all(waiting[index][0] <= now_ms for index in expired)
            assert all(isinstance(waits[index].outcomes[0], Expired) for index in expired)
            for index in expired:
                del waiting[index]
            assert all(latest_ms > now_ms for _, latest_ms in waiting.values())
        elif waits:
            index = amount % len(waits)
            wait = waits[index]
            ends: dict[str, Callable[[], bool]] = {
                "resume": lambda wait=wait: wait.resume("value"),  # type: ignore[misc]
                "fail": lambda wait=wait: wait.fail(Refused(1)),  # type: ignore[misc]
                "abandon": wait.abandon,
            }
            assert ends[step]() == (waiting.pop(index, None) is not None)
        assert all(len(wait.outcomes) <= 1 for wait in waits)
        assert len(scene.waits) == len(waiting)
        assert scene.waits.parked_total == len(waits)
        scene.check()
        scene.wheel.check_invariants()


class Short(Scene):
    """The same with numbers of 31 bits."""

    def __init__(self, capacity: int = 100) -> None:
        super().__init__(capacity)
        self.waits = NumberedWaitTable("replies", self.wheel, self.clock, capacity, self.posted.append, ShortNumbers())


def test_short_numbers_have_31_bits_and_find_their_waits() -> None:
    scene = Short()
    for _ in range(3 * SHORT_GENERATIONS):
        wait = scene.park(1000)
        assert 0 < wait._number < 1 << 31
        taken = scene.waits.numbers.take(wait._number)
        assert taken is wait
        taken.end("answer")
        assert scene.waits.numbers.take(wait._number) is None
        scene.pass_time(100)
    scene.check()
    assert scene.waits.resumed_total == 3 * SHORT_GENERATIONS


def test_short_numbers_pass_over_those_that_are_taken() -> None:
    scene = Short()
    forever = scene.park(NEVER)
    first = forever._number >> SHORT_BITS
    for _ in range(SHORT_GENERATIONS + 5):
        wait = scene.park(1000)
        assert wait._number >> SHORT_BITS != first
        wait.resume("answer")
        scene.pass_time(100)
    assert scene.waits.numbers.take(forever._number) is forever
    forever.end("at last")
    scene.check()


def test_short_numbers_can_all_be_taken() -> None:
    numbers = ShortNumbers()
    scene = Scene()
    scene.waits = NumberedWaitTable("replies", scene.wheel, scene.clock, 100, scene.posted.append, numbers)
    for number in range(1, SHORT_GENERATIONS + 1):
        numbers._generations[number] = scene.waits._idle
    with pytest.raises(LimitExceeded, match="short_generations"):
        scene.park()
