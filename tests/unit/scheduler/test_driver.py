"""Turns on a loop that moves by hand: every message is answered exactly once, whatever ends it."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import Expired, HutongError, LimitExceeded, OwnerGone, StorageError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import Owner, WaitTable
from hutong.scheduler.driver import UNFINISHED, FairExecutor
from hutong.scheduler.machine import Scheduler

Ending = str | HutongError


@dataclass
class Loop:
    """An executor with the turns of its loop, its time, and what its messages ended with."""

    mailbox_max: int = 5
    cost_max: int = 100
    capacity: int = 1_000
    clock: ManualClock = field(default_factory=ManualClock)
    turns: deque[Callable[[], None]] = field(default_factory=deque)
    endings: dict[str, list[Ending]] = field(default_factory=dict)
    wakers: dict[str, Callable[[], None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.wheel = TimerWheel(self.clock.monotonic_ms(), tick_ms=1)
        self.waits: WaitTable[Any] = WaitTable("test messages", self.wheel, self.capacity)
        self.machine = Scheduler(quota_us=5_000, mailbox_max=self.mailbox_max, cost_max=self.cost_max)
        self.executor = FairExecutor(self.machine, self.waits, self.clock, self.turns.append)

    def send(self, key: str, name: str, *, ms: int = 0, error: HutongError | None = None, **how: Any) -> None:
        """A message whose work takes `ms`."""

        def work(_: Callable[[], None]) -> str:
            self.clock.advance(ms)
            if error is not None:
                raise error
            return f"{name} done"

        self.executor.send(key, work, self.endings.setdefault(name, []).append, **how)

    def send_waiting(self, key: str, name: str, **how: Any) -> None:
        """A message that waits until `wake`, then is done."""
        calls = []

        def work(wake: Callable[[], None]) -> Any:
            calls.append(wake)
            self.wakers[name] = wake
            return UNFINISHED if len(calls) == 1 else f"{name} done"

        self.executor.send(key, work, self.endings.setdefault(name, []).append, **how)

    def turn(self) -> bool:
        if not self.turns:
            return False
        self.turns.popleft()()
        self.machine.check_invariants()
        return True

    def settle(self) -> None:
        while self.turn():
            pass

    def advance(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())


def test_nothing_is_done_before_the_loops_next_turn_and_one_actor_has_it() -> None:
    loop = Loop()
    loop.send("a", "one")
    loop.send("b", "two")
    assert len(loop.turns) == 1
    assert loop.endings == {"one": [], "two": []}
    loop.turn()
    assert loop.endings == {"one": ["one done"], "two": []}
    loop.turn()
    assert loop.endings == {"one": ["one done"], "two": ["two done"]}
    assert not loop.turns


def test_a_turn_ends_with_its_quota() -> None:
    loop = Loop()
    for name in "1234":
        loop.send("a", name, ms=3)
    loop.turn()
    assert [name for name, ended in loop.endings.items() if ended] == ["1", "2"]


def test_work_that_waits_is_called_again_when_woken_and_others_go_on() -> None:
    loop = Loop()
    loop.send_waiting("a", "slow")
    loop.send("a", "behind")
    loop.send("b", "other")
    loop.settle()
    assert loop.endings == {"slow": [], "behind": [], "other": ["other done"]}
    loop.wakers["slow"]()
    loop.wakers["slow"]()  # once is enough
    loop.settle()
    assert loop.endings == {"slow": ["slow done"], "behind": ["behind done"], "other": ["other done"]}


def test_what_wakes_before_the_work_returns_is_not_lost() -> None:
    loop = Loop()
    calls: list[int] = []

    def work(wake: Callable[[], None]) -> Any:
        calls.append(1)
        if len(calls) == 1:
            wake()  # the result came at once
            return UNFINISHED
        return "done"

    endings: list[Any] = []
    loop.executor.send("a", work, endings.append)
    loop.settle()
    assert endings == ["done"]


def test_an_error_of_the_work_ends_its_message() -> None:
    loop = Loop()
    error = StorageError("the disk is gone")
    loop.send("a", "bad", error=error)
    loop.send("a", "good")
    loop.settle()
    assert loop.endings == {"bad": [error], "good": ["good done"]}


def test_a_refusal_is_answered_by_mailbox_and_by_wait_table() -> None:
    loop = Loop(mailbox_max=1, capacity=2)
    loop.send("a", "first")
    loop.send("a", "second")
    loop.send("b", "third")
    loop.send("c", "fourth")
    (mailbox,), (table,) = loop.endings["second"], loop.endings["fourth"]
    assert isinstance(mailbox, LimitExceeded)
    assert mailbox.limit == "mailbox_max"
    assert isinstance(table, LimitExceeded)
    assert table.limit == "test messages"
    assert loop.executor.refused_total == 2
    loop.settle()
    assert loop.endings["first"] == ["first done"]
    assert loop.endings["third"] == ["third done"]


def test_a_message_whose_time_is_over_is_answered_and_not_done() -> None:
    loop = Loop()
    loop.send_waiting("a", "begun", deadline_ms=20)
    loop.send("a", "behind", deadline_ms=10)
    loop.turn()
    loop.advance(30)
    (begun,), (behind,) = loop.endings["begun"], loop.endings["behind"]
    assert isinstance(begun, Expired)
    assert isinstance(behind, Expired)
    loop.send("a", "later")
    loop.settle()
    assert loop.endings["later"] == [], "what was begun has to end first: its actor does one thing at a time"
    loop.wakers["begun"]()
    loop.settle()
    assert loop.endings["later"] == ["later done"]
    assert loop.endings["begun"] == [begun]
    assert loop.machine.cost_begun == 0


def test_messages_end_with_their_owner_and_with_the_executor() -> None:
    loop = Loop()
    owner = Owner()
    loop.send("a", "of the owner", owner=owner)
    loop.send("a", "other")
    owner.end()
    loop.send("a", "too late", owner=owner)
    assert isinstance(loop.endings["of the owner"][0], OwnerGone)
    assert isinstance(loop.endings["too late"][0], OwnerGone)
    loop.executor.close(OwnerGone("stopping"))
    assert isinstance(loop.endings["other"][0], OwnerGone)
    loop.settle()
    loop.send("a", "after")
    assert isinstance(loop.endings["after"][0], OwnerGone)
    assert len(loop.machine) == 0


def test_a_fault_of_ours_is_loud_and_stops_nobody_else() -> None:
    loop = Loop()

    def broken(_: Callable[[], None]) -> str:
        raise ZeroDivisionError

    endings: list[Any] = []
    loop.executor.send("a", broken, endings.append, deadline_ms=10)
    loop.send("a", "next")
    loop.send("b", "other")
    with pytest.raises(ZeroDivisionError):
        loop.turn()
    loop.settle()
    assert loop.endings == {"next": ["next done"], "other": ["other done"]}
    loop.advance(10)
    (ending,) = endings
    assert isinstance(ending, Expired), "also then the sender is answered"


actions = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["send", "wait"]), st.sampled_from("abc"), st.integers(0, 60), st.integers(1, 30)),
        st.tuples(st.sampled_from(["turn", "wake", "end"]), st.sampled_from("abc"), st.integers(0, 20), st.just(0)),
        st.tuples(st.just("advance"), st.just("a"), st.integers(0, 10), st.just(0)),
    ),
    max_size=80,
)


@given(actions)
def test_over_any_history_each_message_is_answered_exactly_once(
    history: list[tuple[str, str, int, int]],
) -> None:
    loop = Loop(mailbox_max=3, cost_max=100, capacity=10)
    owners = {key: Owner() for key in "abc"}
    for number, (kind, key, size, time_ms) in enumerate(history):
        if kind in ("send", "wait"):
            deadline_ms = loop.clock.monotonic_ms() + time_ms
            send = loop.send if kind == "send" else loop.send_waiting
            send(key, f"{number}", cost=size, deadline_ms=deadline_ms, owner=owners[key])
        elif kind == "turn":
            loop.turn()
        elif kind == "wake" and loop.wakers:
            loop.wakers.pop(list(loop.wakers)[size % len(loop.wakers)])()
        elif kind == "end":
            owners[key].end()
            owners[key] = Owner()
        elif kind == "advance":
            loop.advance(size)
    while loop.turns or loop.wakers:
        loop.settle()
        for name in list(loop.wakers):
            loop.wakers.pop(name)()
    assert {name: len(ended) for name, ended in loop.endings.items()} == dict.fromkeys(loop.endings, 1)
    assert len(loop.machine) == len(loop.waits) == len(loop.executor._messages) == loop.machine.cost_begun == 0
