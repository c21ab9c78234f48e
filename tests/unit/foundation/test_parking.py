"""Parking: every wait ends exactly once, by value, deadline, owner or lot; bounded and counted."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hutong.foundation.errors import Expired, HutongError, LimitExceeded, OwnerGone, Refused
from hutong.foundation.parking import NEVER, OrderedLot, Owner, Parked, ParkingLot
from hutong.foundation.timers import TimerWheel

Ending = str | HutongError


def make_lot(capacity: int = 100) -> tuple[ParkingLot[str], TimerWheel, list[Ending]]:
    wheel = TimerWheel(0, tick_ms=1)
    return ParkingLot("test waits", wheel, capacity), wheel, []


def test_a_wait_is_resumed_once_with_its_value() -> None:
    lot, _, endings = make_lot()
    ticket = lot.park("key", endings.append)
    assert ticket.is_waiting
    assert lot.resume("key", "value")
    assert not lot.resume("key", "again")
    assert not ticket.resume("again")
    assert not ticket.fail(Expired())
    assert not ticket.abandon()
    assert endings == ["value"]
    assert (lot.parked_total, lot.resumed_total, len(lot)) == (1, 1, 0)


def test_the_oldest_wait_of_a_key_comes_first() -> None:
    lot, _, endings = make_lot()
    for name in ("a", "b", "c"):
        lot.park("key", lambda value, name=name: endings.append(f"{name}{value}"))  # type: ignore[misc]
    lot.resume("key", "1")
    assert endings == ["a1"]
    assert lot.resume_all("key", "2") == 2
    assert endings == ["a1", "b2", "c2"]
    assert lot.resume_all("key", "3") == 0


def test_what_parks_again_while_all_are_resumed_stays_parked() -> None:
    lot, _, endings = make_lot()

    def park_again(_: Ending) -> None:
        lot.park("key", endings.append)

    lot.park("key", park_again)
    assert lot.resume_all("key", "value") == 1
    assert len(lot) == 1
    assert endings == []


def test_a_deadline_expires_a_wait_and_a_value_cancels_the_deadline() -> None:
    lot, wheel, endings = make_lot()
    lot.park("late", endings.append, deadline_ms=50)
    lot.park("in time", endings.append, deadline_ms=50)
    lot.resume("in time", "value")
    assert len(wheel) == 1
    wheel.advance(50)
    assert endings[0] == "value"
    assert isinstance(endings[1], Expired)
    assert (lot.resumed_total, lot.expired_total, len(wheel)) == (1, 1, 0)


def test_an_owner_takes_its_waits_with_it_and_leaves_those_of_others() -> None:
    lot, wheel, endings = make_lot()
    owner, other = Owner(), Owner()
    lot.park("key", endings.append, owner=owner, deadline_ms=10)
    lot.park("key", endings.append, owner=other)
    lot.park("resumed", endings.append, owner=owner)
    lot.resume("resumed", "value")
    assert len(owner) == 1
    assert owner.end() == 1
    assert owner.end() == 0
    assert owner.has_ended
    assert isinstance(endings[1], OwnerGone)
    assert (len(lot), len(other), len(wheel)) == (1, 1, 0)


def test_an_owner_may_end_with_another_error() -> None:
    lot, _, endings = make_lot()
    owner, error = Owner(), Refused(7)
    lot.park("key", endings.append, owner=owner)
    owner.end(error)
    assert endings == [error]


def test_parking_under_an_owner_that_has_ended_ends_at_once() -> None:
    lot, wheel, endings = make_lot()
    owner = Owner()
    owner.end()
    assert not lot.park("key", endings.append, owner=owner, deadline_ms=10).is_waiting
    assert isinstance(endings[0], OwnerGone)
    assert (lot.parked_total, lot.failed_total, len(lot), len(wheel)) == (1, 1, 0, 0)


def test_a_closed_lot_fails_what_it_holds_and_what_comes() -> None:
    lot, _, endings = make_lot()
    error = Refused(1)
    for key in range(3):
        lot.park(key, endings.append)
    assert lot.close(error) == 3
    lot.park("late", endings.append)
    assert endings == [error] * 4


def test_fail_all_fails_one_key() -> None:
    lot, _, endings = make_lot()
    error = Refused(1)
    lot.park("a", endings.append)
    lot.park("a", endings.append)
    lot.park("b", endings.append)
    assert lot.fail_all("a", error) == 2
    assert endings == [error, error]
    assert len(lot) == 1


def test_a_full_lot_says_so_and_calls_nobody() -> None:
    lot, _, endings = make_lot(capacity=1)
    lot.park("key", endings.append)
    with pytest.raises(LimitExceeded, match="test waits is 1"):
        lot.park("key", endings.append)
    assert endings == []
    lot.check_invariants()


def test_a_continuation_that_raises_loses_no_other() -> None:
    lot, _, endings = make_lot()
    owner = Owner()

    def fail(_: Ending) -> None:
        raise ZeroDivisionError

    lot.park("key", fail, owner=owner)
    lot.park("key", endings.append, owner=owner)
    with pytest.raises(ZeroDivisionError):
        owner.end()
    assert owner.end() == 1
    assert len(endings) == 1


async def test_a_coroutine_waits_for_a_value() -> None:
    lot, _, _ = make_lot()
    waiting = asyncio.ensure_future(lot.wait("key"))
    await asyncio.sleep(0)
    lot.resume("key", "value")
    assert await waiting == "value"


async def test_a_coroutine_is_told_of_its_deadline() -> None:
    lot, wheel, _ = make_lot()
    waiting = asyncio.ensure_future(lot.wait("key", deadline_ms=10))
    await asyncio.sleep(0)
    wheel.advance(10)
    with pytest.raises(Expired):
        await waiting


async def test_a_cancelled_coroutine_gives_up_its_place() -> None:
    lot, wheel, _ = make_lot()
    owner = Owner()
    waiting = asyncio.ensure_future(lot.wait("key", deadline_ms=10, owner=owner))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (len(lot), len(wheel), len(owner), lot.abandoned_total) == (0, 0, 0, 1)
    lot.check_invariants()


async def test_a_value_that_meets_a_cancelled_coroutine_is_dropped_quietly() -> None:
    lot, _, _ = make_lot()
    waiting = asyncio.ensure_future(lot.wait("key"))
    await asyncio.sleep(0)
    waiting.cancel()
    lot.resume("key", "value")
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def cancelled(task: "asyncio.Task[str]") -> None:
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_waiter_that_was_cancelled_takes_no_value() -> None:
    lot, _, _ = make_lot()
    first, second = [asyncio.ensure_future(lot.wait("key")) for _ in range(2)]
    await asyncio.sleep(0)
    first.cancel()
    assert lot.resume("key", "value"), "the next one takes it"
    second.cancel()
    assert not lot.resume("key", "another")
    await cancelled(first)
    await cancelled(second)
    assert (lot.resumed_total, lot.abandoned_total, lot.given_back_total, len(lot)) == (1, 1, 1, 0)


async def test_a_waiter_that_was_cancelled_is_not_counted_when_all_are_resumed_or_failed() -> None:
    lot, _, _ = make_lot()
    tasks = [asyncio.ensure_future(lot.wait(key)) for key in ("one", "one", "other", "other")]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[3].cancel()
    assert (lot.resume_all("one", "value"), lot.fail_all("other", Refused(1))) == (1, 1)
    assert await tasks[1] == "value"
    with pytest.raises(Refused):
        await tasks[2]
    for task in (tasks[0], tasks[3]):
        await cancelled(task)
    lot.check_invariants()


async def test_a_value_that_its_waiter_never_saw_is_given_back() -> None:
    lot, _, endings = make_lot()
    task = asyncio.ensure_future(lot.wait("key", give_back=endings.append))
    await asyncio.sleep(0)
    assert lot.resume("key", "value")
    task.cancel()
    await cancelled(task)
    assert endings == ["value"]


async def test_an_error_whose_waiter_was_cancelled_is_no_value_to_give_back(caplog: pytest.LogCaptureFixture) -> None:
    lot, _, endings = make_lot()
    task = asyncio.ensure_future(lot.wait("key", give_back=endings.append))
    await asyncio.sleep(0)
    assert lot.fail_all("key", Refused(1)) == 1
    task.cancel()
    await cancelled(task)
    assert (endings, lot.given_back_total) == ([], 0)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["wait", "cancel", "resume", "resume all", "end owner", "expire", "turn"]), st.integers(0, 5)
    ),
    max_size=40,
)


@given(STEPS)
@hypothesis_settings(deadline=None)
def test_a_value_that_was_taken_is_got_or_given_back_in_any_order_of_steps(steps: list[tuple[str, int]]) -> None:
    async def play() -> None:
        lot, wheel, given_back = make_lot()
        owner, now_ms = Owner(), 0
        tasks: list[asyncio.Task[str]] = []
        taken: list[str] = []
        for number, (step, which) in enumerate(steps):
            value = f"value {number}"
            if step == "wait":
                waiting = lot.wait(which % 2, owner=owner, deadline_ms=now_ms + 5, give_back=given_back.append)
                tasks.append(asyncio.ensure_future(waiting))
            elif step == "cancel" and tasks:
                tasks[which % len(tasks)].cancel()
            elif step == "resume" and lot.resume(which % 2, value):
                taken.append(value)
            elif step == "resume all":
                taken += [value] * lot.resume_all(which % 2, value)
            elif step == "end owner":
                owner.end()
                owner = Owner()
            elif step == "expire":
                now_ms += which
                wheel.advance(now_ms)
            elif step == "turn":
                await asyncio.sleep(0)
            lot.check_invariants()
        lot.close(OwnerGone())
        got = await asyncio.gather(*tasks, return_exceptions=True)
        assert sorted([*(value for value in got if isinstance(value, str)), *map(str, given_back)]) == sorted(taken)
        assert (lot.given_back_total, len(lot)) == (len(given_back), 0)

    asyncio.run(play())


class ParkingMachine(RuleBasedStateMachine):
    """Any interleaving of events: each wait ends once, and the lot's books balance."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.wheel = TimerWheel(0, tick_ms=1)
        self.lot: ParkingLot[str] = ParkingLot("machine", self.wheel, capacity=20)
        self.owners = [Owner(), Owner(), Owner()]
        self.tickets: list[Parked[str]] = []
        self.endings: list[list[Ending]] = []

    @rule(key=st.integers(0, 2), delay_ms=st.none() | st.integers(0, 50), owner=st.none() | st.integers(0, 2))
    def park(self, key: int, delay_ms: int | None, owner: int | None) -> None:
        endings: list[Ending] = []
        deadline_ms = None if delay_ms is None else self.now_ms + delay_ms
        try:
            ticket = self.lot.park(
                key, endings.append, deadline_ms=deadline_ms, owner=None if owner is None else self.owners[owner]
            )
        except LimitExceeded:
            assert len(self.lot) == 20
            return
        self.tickets.append(ticket)
        self.endings.append(endings)

    @rule(key=st.integers(0, 2), everyone=st.booleans())
    def resume(self, key: int, everyone: bool) -> None:
        if everyone:
            self.lot.resume_all(key, "value")
        else:
            self.lot.resume(key, "value")

    @rule(number=st.integers(0, 100), how=st.sampled_from(["resume", "fail", "abandon"]))
    def end_by_ticket(self, number: int, how: str) -> None:
        if self.tickets:
            ticket = self.tickets[number % len(self.tickets)]
            was_waiting = ticket.is_waiting
            ended = {
                "resume": lambda: ticket.resume("value"),
                "fail": lambda: ticket.fail(Refused(1)),
                "abandon": ticket.abandon,
            }[how]()
            assert ended == was_waiting

    @rule(owner=st.integers(0, 2))
    def end_owner(self, owner: int) -> None:
        self.owners[owner].end()
        assert len(self.owners[owner]) == 0
        self.owners[owner] = Owner()

    @rule(passed_ms=st.integers(0, 40))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.wheel.advance(self.now_ms)

    @invariant()
    def each_wait_ends_once(self) -> None:
        self.lot.check_invariants()
        self.wheel.check_invariants()
        for ticket, endings in zip(self.tickets, self.endings, strict=True):
            assert len(endings) <= (0 if ticket.is_waiting else 1)
        assert len(self.lot) == sum(ticket.is_waiting for ticket in self.tickets)
        ended = self.lot.resumed_total + self.lot.expired_total + self.lot.failed_total
        assert ended == sum(map(len, self.endings))


TestParkingMachine = ParkingMachine.TestCase
TestParkingMachine.settings = hypothesis_settings(max_examples=50, stateful_step_count=40, deadline=None)


def ordered_lot(capacity: int = 100, wheel: TimerWheel | None = None) -> OrderedLot[int]:
    return OrderedLot("acknowledgements", TimerWheel(0) if wheel is None else wheel, capacity)


def test_positions_are_resumed_in_order_up_to_the_flush() -> None:
    lot = ordered_lot()
    seen: list[int | HutongError] = []
    for position in (10, 20, 20, 30):
        lot.park(position, [(seen.append, position)])
    assert lot.resume_through(9) == 0
    assert lot.resume_through(20) == 3
    assert seen == [10, 20, 20]
    assert (len(lot), lot.parked_total, lot.resumed_total) == (1, 4, 3)


def test_a_position_before_the_last_is_our_fault() -> None:
    lot = ordered_lot()
    lot.park(10, [(lambda _: None, 1)])
    with pytest.raises(ValueError, match="before 10"):
        lot.park(9, [(lambda _: None, 1)])


def test_an_ordered_lot_is_bounded_and_fails_as_a_whole() -> None:
    lot = ordered_lot(capacity=2)
    seen: list[int | HutongError] = []
    error = Refused(56)
    lot.park(1, [(seen.append, 1)])
    with pytest.raises(LimitExceeded, match="acknowledgements is 2"):
        lot.park(2, [(seen.append, 2), (seen.append, 3)])
    assert len(lot) == 1, "all or nothing"
    lot.park(2, [(seen.append, 2)], timeout_ms=50)
    assert lot.fail_all(error) == 2
    assert seen == [error, error]
    assert (len(lot), lot.failed_total) == (0, 2)


def test_a_wait_expires_once_and_the_others_stay() -> None:
    wheel = TimerWheel(0)
    lot = ordered_lot(wheel=wheel)
    patient: list[int | HutongError] = []
    hurried: list[int | HutongError] = []
    lot.park(1, [(patient.append, 1)], timeout_ms=30_000, now_ms=0)
    lot.park(2, [(hurried.append, 2), (hurried.append, 2)], timeout_ms=100, now_ms=0)
    lot.park(3, [(patient.append, 3)])
    wheel.advance(99)
    assert not hurried
    wheel.advance(100 * 9 // 8 + 20)
    assert [type(outcome) for outcome in hurried] == [Expired, Expired]
    assert (len(lot), lot.expired_total, patient) == (2, 2, [])
    assert lot.resume_through(3) == 2
    assert patient == [1, 3]
    assert len(hurried) == 2
    lot.check_invariants()


def test_deadlines_cost_a_timer_per_timeout_however_many_wait() -> None:
    wheel = TimerWheel(0)
    lot = ordered_lot(capacity=100_000, wheel=wheel)
    for position in range(10_000):
        lot.park(position, [(lambda _: None, 0)], timeout_ms=30_000 + position % 2, now_ms=position)
        lot.resume_through(position - 5)
    assert len(wheel) == 1
    lot.resume_through(10_000)
    wheel.advance(200_000)
    assert len(wheel) == 0, "a line in which nobody stands needs no timer"
    assert lot.expired_total == 0
    lot.check_invariants()


@pytest.mark.parametrize("ending", ["resume", "expire", "fail"])
def test_a_continuation_that_raises_leaves_the_others_parked(ending: str) -> None:
    wheel = TimerWheel(0)
    lot = ordered_lot(wheel=wheel)
    seen: list[int | HutongError] = []

    def broken(_: object) -> None:
        raise ZeroDivisionError

    lot.park(1, [(seen.append, 1), (broken, 2), (seen.append, 3)], timeout_ms=10)
    endings: dict[str, Callable[[], int]] = {
        "resume": lambda: lot.resume_through(1),
        "expire": lambda: wheel.advance(wheel.now_ms + 1000),
        "fail": lambda: lot.fail_all(Refused(1)),
    }
    end = endings[ending]
    with pytest.raises(ZeroDivisionError):
        end()
    assert (len(lot), len(seen)) == (1, 1)
    end()
    assert (len(lot), len(seen)) == (0, 2)
    lot.check_invariants()


def test_a_continuation_may_resume_and_fail_others() -> None:
    lot = ordered_lot()
    seen: list[object] = []
    lot.park(1, [(lambda _: seen.append(lot.resume_through(1)), 0), (seen.append, "inner")])  # type: ignore[list-item]
    lot.park(2, [(seen.append, 2)])
    assert lot.resume_through(2) == 3
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
    lot = ordered_lot(capacity=1000, wheel=wheel)
    waiting: dict[int, tuple[int, int, int]] = {}  # number: position, earliest and latest millisecond of its expiry
    endings: list[tuple[int, bool]] = []
    position, now_ms = 0, 0

    def waiter(number: int) -> Callable[[int | HutongError], None]:
        return lambda outcome: endings.append((number, isinstance(outcome, Expired)))

    for number, (step, amount, timeout_ms) in enumerate(script):
        endings.clear()
        if step == "park":
            position += amount
            lot.park(position, [(waiter(number), number)], timeout_ms=timeout_ms, now_ms=now_ms)
            never = timeout_ms == NEVER
            earliest = 1 << 60 if never else now_ms + timeout_ms
            waiting[number] = position, earliest, earliest + timeout_ms // 8 + 20
        elif step == "resume":
            lot.resume_through(amount)
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
        assert len(lot) == len(waiting)
        lot.check_invariants()
        wheel.check_invariants()
    lot.stop_timers()
    assert len(wheel) == 0
