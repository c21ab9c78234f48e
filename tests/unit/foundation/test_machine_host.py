"""The host of machines, with a machine that counts: no loop, a clock and a state topic that do what the test says."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tests.unit.foundation.fake_state import FakeState

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import HutongError, OwnerGone, StorageError
from hutong.foundation.machine import Tick
from hutong.foundation.machine_host import MachineEntry, MachineHost, ParkedCallers
from hutong.foundation.timers import TimerWheel

FAILED = -1


@dataclass(frozen=True)
class Add:
    ticket: int


@dataclass(frozen=True)
class Look:
    ticket: int


@dataclass(frozen=True)
class Persist:
    count: int


@dataclass(frozen=True)
class Answer:
    ticket: int
    count: int


class Counter:
    """Counts, and is at zero again at `due_ms`."""

    def __init__(self) -> None:
        self.count = 0
        self.due_ms: int | None = None
        self.ticks: list[int] = []

    def handle(self, event: Add | Look | Tick) -> Sequence[Persist | Answer]:
        match event:
            case Add(ticket):
                self.count += 1
                return [Persist(self.count), Answer(ticket, self.count)]
            case Look(ticket):
                return [Answer(ticket, self.count)]
            case Tick(now_ms):
                self.ticks.append(now_ms)
                if self.due_ms is not None and self.due_ms <= now_ms:
                    self.count, self.due_ms = 0, None
                return []

    def next_tick_ms(self) -> int | None:
        return self.due_ms


CounterEntry = MachineEntry[str, Counter]


class Counters:
    """The driver of the example in the host's docstring."""

    def __init__(self, *, uses_wall_time: bool = False) -> None:
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self.state = FakeState()
        self.host: MachineHost[CounterEntry, Add | Look | Tick, Persist | Answer] = MachineHost(
            self.clock, self.wheel, self.state, self.feed, uses_wall_time=uses_wall_time
        )
        self.callers = ParkedCallers("counter waits", self.wheel, waits_max=10)
        self.answers: list[int] = []
        self.entry = self.host.put(MachineEntry("a", Counter()))

    def ask(self, event: type[Add] | type[Look] = Add) -> None:
        ticket = self.callers.park(self.answers.append, FAILED)
        if ticket is not None:
            self.feed(self.entry, event(ticket))

    def feed(self, entry: CounterEntry, event: Add | Look | Tick) -> None:
        for instruction in self.host.handle(entry, event):
            match instruction:
                case Persist(count):
                    self.host.append(entry, [(entry.key.encode(), b"%d" % count)])
                case Answer(ticket, count):
                    self.host.when_durable(entry, partial(self.callers.settle, ticket, count))

    def due_at(self, due_ms: int) -> None:
        self.entry.machine.due_ms = due_ms
        self.host.arm(self.entry)

    def pass_time(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())


def test_an_answer_waits_for_all_that_was_appended_before_it() -> None:
    counters = Counters()
    counters.ask(Look)
    assert counters.answers == [0], "nothing is on its way"
    counters.state.holds_back = True
    counters.ask()
    counters.ask()
    counters.ask(Look)
    assert counters.answers == [0]
    counters.state.flush(1)
    assert counters.answers == [0, 1]
    counters.state.flush(1)
    assert counters.answers == [0, 1, 2, 2]
    assert counters.state.live == {b"a": b"2"}


def test_a_failed_append_fails_all_that_waits_until_one_succeeds() -> None:
    counters = Counters()
    counters.state.holds_back = True
    counters.ask()
    counters.ask()
    counters.state.flush(1, StorageError("no disk"))
    assert counters.answers == [FAILED, FAILED], "the second answer tells of the first count, too"
    counters.state.flush()
    counters.state.failure = StorageError("no disk")
    counters.ask()
    counters.ask(Look)
    assert counters.answers[2:] == [FAILED, FAILED]
    counters.state.failure, counters.state.holds_back = None, False
    counters.ask()
    assert counters.answers[4:] == [4]


def test_the_continuation_of_an_append_comes_before_held_answers() -> None:
    counters, ended = Counters(), list[HutongError | None]()
    counters.state.holds_back = True
    counters.host.append(counters.entry, [(b"b", None)], ended.append)
    counters.host.when_durable(counters.entry, lambda _error: ended.append(StorageError("second")))
    counters.state.flush()
    assert [type(each) for each in ended] == [type(None), StorageError]


def test_one_timer_stays_while_deadlines_move_back_and_moves_for_an_earlier_one() -> None:
    counters = Counters()
    counters.due_at(1_000)
    counters.due_at(5_000)
    assert len(counters.wheel) == 1
    counters.pass_time(1_000)
    assert counters.entry.machine.ticks == [1_000], "the early tick"
    assert len(counters.wheel) == 1, "and the timer for the real one"
    counters.due_at(2_000)
    assert len(counters.wheel) == 1
    counters.pass_time(1_000)
    assert counters.entry.machine.ticks == [1_000, 2_000]
    assert len(counters.wheel) == 0, "nothing is due any more"


def test_machines_that_live_by_wall_time_get_it_in_their_ticks() -> None:
    counters = Counters(uses_wall_time=True)
    due_ms = counters.clock.wall_ms() + 1_000
    counters.due_at(due_ms)
    counters.clock.jump(-600)
    counters.pass_time(1_000)
    assert counters.entry.machine.ticks == [due_ms - 600], "the clock was set back: the tick is early"
    counters.pass_time(600)
    assert counters.entry.machine.ticks == [due_ms - 600, due_ms]


def test_a_removed_machine_has_no_timer_and_gets_none() -> None:
    counters = Counters()
    counters.due_at(1_000)
    entry = counters.entry
    assert counters.host.remove(entry)
    assert not counters.host.remove(entry)
    assert not counters.host.hosts(entry)
    counters.host.arm(entry)
    assert len(counters.wheel) == 0
    assert counters.host.get("a") is None
    after = counters.host.put(MachineEntry("a", Counter()))
    assert not counters.host.remove(entry), "the key has another entry by now"
    assert list(counters.host) == [after]


def test_what_is_repeated_and_what_is_due_ends_with_the_host() -> None:
    counters, calls = Counters(), list[int]()
    counters.host.repeat(1_000, lambda: calls.append(counters.clock.monotonic_ms()))
    counters.pass_time(1_000)
    counters.pass_time(1_000)
    assert calls == [1_000, 2_000]
    counters.due_at(9_000)
    counters.host.close()
    counters.callers.close(OwnerGone("the node is stopping"))
    assert counters.host.is_closed
    assert len(counters.wheel) == 0
    counters.due_at(5_000)
    counters.host.repeat(1_000, lambda: None)
    assert len(counters.wheel) == 0
    counters.ask()
    assert counters.answers == [FAILED]
