"""The ordered wait table: resumed in the order of positions, expired by timeouts; bounded and counted."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import Expired, HutongError, LimitExceeded, Refused
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.ordered import OrderedWaitTable
from hutong.foundation.waiting.table import NEVER


def ordered_waits(capacity: int = 100, wheel: TimerWheel | None = None) -> OrderedWaitTable[int]:
    return OrderedWaitTable("acknowledgements", TimerWheel(0) if wheel is None else wheel, capacity)


def test_positions_are_resumed_in_order_up_to_the_flush() -> None:
    table = ordered_waits()
    seen: list[int | HutongError] = []
    for position in (10, 20, 20, 30):
        table.park(position, [(seen.append, position)])
    assert table.resume_through(9) == 0
    assert table.resume_through(20) == 3
    assert seen == [10, 20, 20]
    assert (len(table), table.parked_total, table.resumed_total) == (1, 4, 3)


def test_a_position_before_the_last_is_our_fault() -> None:
    table = ordered_waits()
    table.park(10, [(lambda _: None, 1)])
    with pytest.raises(ValueError, match="before 10"):
        table.park(9, [(lambda _: None, 1)])


def test_an_ordered_lot_is_bounded_and_fails_as_a_whole() -> None:
    table = ordered_waits(capacity=2)
    seen: list[int | HutongError] = []
    error = Refused(56)
    table.park(1, [(seen.append, 1)])
    with pytest.raises(LimitExceeded, match="acknowledgements is 2"):
        table.park(2, [(seen.append, 2), (seen.append, 3)])
    assert len(table) == 1, "all or nothing"
    table.park(2, [(seen.append, 2)], timeout_ms=50)
    assert table.fail_all(error) == 2
    assert seen == [error, error]
    assert (len(table), table.failed_total) == (0, 2)


def test_a_wait_expires_once_and_the_others_stay() -> None:
    wheel = TimerWheel(0)
    table = ordered_waits(wheel=wheel)
    patient: list[int | HutongError] = []
    hurried: list[int | HutongError] = []
    table.park(1, [(patient.append, 1)], timeout_ms=30_000, now_ms=0)
    table.park(2, [(hurried.append, 2), (hurried.append, 2)], timeout_ms=100, now_ms=0)
    table.park(3, [(patient.append, 3)])
    wheel.advance(99)
    assert not hurried
    wheel.advance(100 * 9 // 8 + 20)
    assert [type(outcome) for outcome in hurried] == [Expired, Expired]
    assert (len(table), table.expired_total, patient) == (2, 2, [])
    assert table.resume_through(3) == 2
    assert patient == [1, 3]
    assert len(hurried) == 2
    table.check_invariants()


def test_deadlines_cost_a_timer_per_timeout_however_many_wait() -> None:
    wheel = TimerWheel(0)
    table = ordered_waits(capacity=100_000, wheel=wheel)
    for position in range(10_000):
        table.park(position, [(lambda _: None, 0)], timeout_ms=30_000 + position % 2, now_ms=position)
        table.resume_through(position - 5)
    assert len(wheel) == 1
    table.resume_through(10_000)
    wheel.advance(200_000)
    assert len(wheel) == 0, "a line in which nobody stands needs no timer"
    assert table.expired_total == 0
    table.check_invariants()


@pytest.mark.parametrize("ending", ["resume", "expire", "fail"])
def test_a_continuation_that_raises_leaves_the_others_parked(ending: str) -> None:
    wheel = TimerWheel(0)
    table = ordered_waits(wheel=wheel)
    seen: list[int | HutongError] = []

    def broken(_: object) -> None:
        raise ZeroDivisionError

    table.park(1, [(seen.append, 1), (broken, 2), (seen.append, 3)], timeout_ms=10)
    endings: dict[str, Callable[[], int]] = {
        "resume": lambda: table.resume_through(1),
        "expire": lambda: wheel.advance(wheel.now_ms + 1000),
        "fail": lambda: table.fail_all(Refused(1)),
    }
    end = endings[ending]
    with pytest.raises(ZeroDivisionError):
        end()
    assert (len(table), len(seen)) == (1, 1)
    end()
    assert (len(table), len(seen)) == (0, 2)
    table.check_invariants()


def test_a_continuation_may_resume_and_fail_others() -> None:
    table = ordered_waits()
    seen: list[object] = []
    table.park(1, [(lambda _: seen.append(table.resume_through(1)), 0), (seen.append, "inner")])  # type: ignore[list-item]
    table.park(2, [(seen.append, 2)])
    assert table.resume_through(2) == 3
    assert seen == ["inner", 1, 2]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("park"), st.integers(0, 5), st.sampled_from([NEVER, 0, 10, 45, 300, 301, 2000])),
            st.tuples(st.just("resume"), st.integers(0, 20), st.just(0)),
            st.tuples(st.just("wait"), st.integers(0, 500), st.just(0)),
        ),
        max_size=60,
    )
)
def test_an_ordered_lot_ends_each_wait_once_in_order_and_in_time(script: list[tuple[str, int, int]]) -> None:
    wheel = TimerWheel(0)
    table = ordered_waits(capacity=1000, wheel=wheel)
    waiting: dict[int, tuple[int, int, int]] = {}  # number: position, earliest and latest millisecond of its expiry
    endings: list[tuple[int, bool]] = []
    position, now_ms = 0, 0

    def waiter(number: int) -> Callable[[int | HutongError], None]:
        return lambda outcome: endings.append((number, isinstance(outcome, Expired)))

    for number, (step, amount, timeout_ms) in enumerate(script):
        endings.clear()
        if step == "park":
            position += amount
            table.park(position, [(waiter(number), number)], timeout_ms=timeout_ms, now_ms=now_ms)
            never = timeout_ms == NEVER
            earliest = 1 << 60 if never else now_ms + timeout_ms
            waiting[number] = position, earliest, earliest + timeout_ms // 8 + 20
        elif step == "resume":
            table.resume_through(amount)
            due = [number for number, (at, _, _) in waiting.items() if at <= amount]
            assert sorted(endings) == [(number, False) for number in due]
            positions = [waiting[number][0] for number, _ in endings]
            assert positions == sorted(positions)
        else:
            now_ms += amount
            wheel.advance(now_ms)
            assert all(expired and waiting[number][1] <= now_ms for number, expired in endings)
            ended = {number for number, _ in endings}
            assert all(latest > now_ms for number, (_, _, latest) in waiting.items() if number not in ended)
        for number, _ in endings:
            del waiting[number]
        assert len(table) == len(waiting)
        table.check_invariants()
        wheel.check_invariants()
    table.stop_timers()
    assert len(wheel) == 0
