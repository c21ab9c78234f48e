"""Parking: every wait ends exactly once, by value, deadline, owner or table; bounded and counted."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hutong.foundation.errors import Expired, HutongError, LimitExceeded, OwnerGone, Refused
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import Owner, ParkedWait, WaitTable

Ending = str | HutongError


def make_waits(capacity: int = 100) -> tuple[WaitTable[str], TimerWheel, list[Ending]]:
    wheel = TimerWheel(0, tick_ms=1)
    return WaitTable("test waits", wheel, capacity), wheel, []


def test_a_wait_is_resumed_once_with_its_value() -> None:
    table, _, endings = make_waits()
    ticket = table.park("key", endings.append)
    assert ticket.is_waiting
    assert table.resume("key", "value")
    assert not table.resume("key", "again")
    assert not ticket.resume("again")
    assert not ticket.fail(Expired())
    assert not ticket.abandon()
    assert endings == ["value"]
    assert (table.parked_total, table.resumed_total, len(table)) == (1, 1, 0)


def test_the_oldest_wait_of_a_key_comes_first() -> None:
    table, _, endings = make_waits()
    for name in ("a", "b", "c"):
        table.park("key", lambda value, name=name: endings.append(f"{name}{value}"))  # type: ignore[misc]
    table.resume("key", "1")
    assert endings == ["a1"]
    assert table.resume_all("key", "2") == 2
    assert endings == ["a1", "b2", "c2"]
    assert table.resume_all("key", "3") == 0


def test_what_parks_again_while_all_are_resumed_stays_parked() -> None:
    table, _, endings = make_waits()

    def park_again(_: Ending) -> None:
        table.park("key", endings.append)

    table.park("key", park_again)
    assert table.resume_all("key", "value") == 1
    assert len(table) == 1
    assert endings == []


def test_a_deadline_expires_a_wait_and_a_value_cancels_the_deadline() -> None:
    table, wheel, endings = make_waits()
    table.park("late", endings.append, deadline_ms=50)
    table.park("in time", endings.append, deadline_ms=50)
    table.resume("in time", "value")
    assert len(wheel) == 1
    wheel.advance(50)
    assert endings[0] == "value"
    assert isinstance(endings[1], Expired)
    assert (table.resumed_total, table.expired_total, len(wheel)) == (1, 1, 0)


def test_an_owner_takes_its_waits_with_it_and_leaves_those_of_others() -> None:
    table, wheel, endings = make_waits()
    owner, other = Owner(), Owner()
    table.park("key", endings.append, owner=owner, deadline_ms=10)
    table.park("key", endings.append, owner=other)
    table.park("resumed", endings.append, owner=owner)
    table.resume("resumed", "value")
    assert len(owner) == 1
    assert owner.end() == 1
    assert owner.end() == 0
    assert owner.has_ended
    assert isinstance(endings[1], OwnerGone)
    assert (len(table), len(other), len(wheel)) == (1, 1, 0)


def test_an_owner_may_end_with_another_error() -> None:
    table, _, endings = make_waits()
    owner, error = Owner(), Refused(7)
    table.park("key", endings.append, owner=owner)
    owner.end(error)
    assert endings == [error]


def test_parking_under_an_owner_that_has_ended_ends_at_once() -> None:
    table, wheel, endings = make_waits()
    owner = Owner()
    owner.end()
    assert not table.park("key", endings.append, owner=owner, deadline_ms=10).is_waiting
    assert isinstance(endings[0], OwnerGone)
    assert (table.parked_total, table.failed_total, len(table), len(wheel)) == (1, 1, 0, 0)


def test_a_closed_lot_fails_what_it_holds_and_what_comes() -> None:
    table, _, endings = make_waits()
    error = Refused(1)
    for key in range(3):
        table.park(key, endings.append)
    assert table.close(error) == 3
    table.park("late", endings.append)
    assert endings == [error] * 4


def test_fail_all_fails_one_key() -> None:
    table, _, endings = make_waits()
    error = Refused(1)
    table.park("a", endings.append)
    table.park("a", endings.append)
    table.park("b", endings.append)
    assert table.fail_all("a", error) == 2
    assert endings == [error, error]
    assert len(table) == 1


def test_a_full_lot_says_so_and_calls_nobody() -> None:
    table, _, endings = make_waits(capacity=1)
    table.park("key", endings.append)
    with pytest.raises(LimitExceeded, match="test waits is 1"):
        table.park("key", endings.append)
    assert endings == []
    table.check_invariants()


def test_a_continuation_that_raises_loses_no_other() -> None:
    table, _, endings = make_waits()
    owner = Owner()

    def fail(_: Ending) -> None:
        raise ZeroDivisionError

    table.park("key", fail, owner=owner)
    table.park("key", endings.append, owner=owner)
    with pytest.raises(ZeroDivisionError):
        owner.end()
    assert owner.end() == 1
    assert len(endings) == 1


async def test_a_coroutine_waits_for_a_value() -> None:
    table, _, _ = make_waits()
    waiting = asyncio.ensure_future(table.wait("key"))
    await asyncio.sleep(0)
    table.resume("key", "value")
    assert await waiting == "value"


async def test_a_coroutine_is_told_of_its_deadline() -> None:
    table, wheel, _ = make_waits()
    waiting = asyncio.ensure_future(table.wait("key", deadline_ms=10))
    await asyncio.sleep(0)
    wheel.advance(10)
    with pytest.raises(Expired):
        await waiting


async def test_a_cancelled_coroutine_gives_up_its_place() -> None:
    table, wheel, _ = make_waits()
    owner = Owner()
    waiting = asyncio.ensure_future(table.wait("key", deadline_ms=10, owner=owner))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (len(table), len(wheel), len(owner), table.abandoned_total) == (0, 0, 0, 1)
    table.check_invariants()


async def test_a_value_that_meets_a_cancelled_coroutine_is_dropped_quietly() -> None:
    table, _, _ = make_waits()
    waiting = asyncio.ensure_future(table.wait("key"))
    await asyncio.sleep(0)
    waiting.cancel()
    table.resume("key", "value")
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def cancelled(task: "asyncio.Task[str]") -> None:
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_waiter_that_was_cancelled_takes_no_value() -> None:
    table, _, _ = make_waits()
    first, second = [asyncio.ensure_future(table.wait("key")) for _ in range(2)]
    await asyncio.sleep(0)
    first.cancel()
    assert table.resume("key", "value"), "the next one takes it"
    second.cancel()
    assert not table.resume("key", "another")
    await cancelled(first)
    await cancelled(second)
    assert (table.resumed_total, table.abandoned_total, table.given_back_total, len(table)) == (1, 1, 1, 0)


async def test_a_waiter_that_was_cancelled_is_not_counted_when_all_are_resumed_or_failed() -> None:
    table, _, _ = make_waits()
    tasks = [asyncio.ensure_future(table.wait(key)) for key in ("one", "one", "other", "other")]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[3].cancel()
    assert (table.resume_all("one", "value"), table.fail_all("other", Refused(1))) == (1, 1)
    assert await tasks[1] == "value"
    with pytest.raises(Refused):
        await tasks[2]
    for task in (tasks[0], tasks[3]):
        await cancelled(task)
    table.check_invariants()


async def test_a_value_that_its_waiter_never_saw_is_given_back() -> None:
    table, _, endings = make_waits()
    task = asyncio.ensure_future(table.wait("key", give_back=endings.append))
    await asyncio.sleep(0)
    assert table.resume("key", "value")
    task.cancel()
    await cancelled(task)
    assert endings == ["value"]


async def test_an_error_whose_waiter_was_cancelled_is_no_value_to_give_back(caplog: pytest.LogCaptureFixture) -> None:
    table, _, endings = make_waits()
    task = asyncio.ensure_future(table.wait("key", give_back=endings.append))
    await asyncio.sleep(0)
    assert table.fail_all("key", Refused(1)) == 1
    task.cancel()
    await cancelled(task)
    assert (endings, table.given_back_total) == ([], 0)


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
        table, wheel, given_back = make_waits()
        owner, now_ms = Owner(), 0
        tasks: list[asyncio.Task[str]] = []
        taken: list[str] = []
        for number, (step, which) in enumerate(steps):
            value = f"value {number}"
            if step == "wait":
                waiting = table.wait(which % 2, owner=owner, deadline_ms=now_ms + 5, give_back=given_back.append)
                tasks.append(asyncio.ensure_future(waiting))
            elif step == "cancel" and tasks:
                tasks[which % len(tasks)].cancel()
            elif step == "resume" and table.resume(which % 2, value):
                taken.append(value)
            elif step == "resume all":
                taken += [value] * table.resume_all(which % 2, value)
            elif step == "end owner":
                owner.end()
                owner = Owner()
            elif step == "expire":
                now_ms += which
                wheel.advance(now_ms)
            elif step == "turn":
                await asyncio.sleep(0)
            table.check_invariants()
        table.close(OwnerGone())
        got = await asyncio.gather(*tasks, return_exceptions=True)
        assert sorted([*(value for value in got if isinstance(value, str)), *map(str, given_back)]) == sorted(taken)
        assert (table.given_back_total, len(table)) == (len(given_back), 0)

    asyncio.run(play())


class ParkingMachine(RuleBasedStateMachine):
    """Any interleaving of events: each wait ends once, and the table's books balance."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.wheel = TimerWheel(0, tick_ms=1)
        self.waits: WaitTable[str] = WaitTable("machine", self.wheel, capacity=20)
        self.owners = [Owner(), Owner(), Owner()]
        self.tickets: list[ParkedWait[str]] = []
        self.endings: list[list[Ending]] = []

    @rule(key=st.integers(0, 2), delay_ms=st.none() | st.integers(0, 50), owner=st.none() | st.integers(0, 2))
    def park(self, key: int, delay_ms: int | None, owner: int | None) -> None:
        endings: list[Ending] = []
        deadline_ms = None if delay_ms is None else self.now_ms + delay_ms
        try:
            ticket = self.waits.park(
                key, endings.append, deadline_ms=deadline_ms, owner=None if owner is None else self.owners[owner]
            )
        except LimitExceeded:
            assert len(self.waits) == 20
            return
        self.tickets.append(ticket)
        self.endings.append(endings)

    @rule(key=st.integers(0, 2), everyone=st.booleans())
    def resume(self, key: int, everyone: bool) -> None:
        if everyone:
            self.waits.resume_all(key, "value")
        else:
            self.waits.resume(key, "value")

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
        self.waits.check_invariants()
        self.wheel.check_invariants()
        for ticket, endings in zip(self.tickets, self.endings, strict=True):
            assert len(endings) <= (0 if ticket.is_waiting else 1)
        assert len(self.waits) == sum(ticket.is_waiting for ticket in self.tickets)
        ended = self.waits.resumed_total + self.waits.expired_total + self.waits.failed_total
        assert ended == sum(map(len, self.endings))


TestParkingMachine = ParkingMachine.TestCase
TestParkingMachine.settings = hypothesis_settings(max_examples=50, stateful_step_count=40, deadline=None)
