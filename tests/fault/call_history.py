"""Histories of calls: callers who repeat, a network that delays, drops and doubles, a store that fails, crashes.

Strategy: hypothesis writes the history; the machine is the real one, everything around it is here in a few lines. The
store is a log in which the latest record of a key counts; at a crash any part of what was under way may be in it. A
request that was sent once may be delivered at any later time, again and again. What must hold is said in `_executed`
and `_answered`, and all of it is about effects and answers: nothing about how the machine comes by them.
"""

from collections import Counter
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hutong.foundation.machine import Answer, Tick
from hutong.rpc.delivery.ids import CallId
from hutong.rpc.delivery.machine import CallMemoryMachine
from hutong.rpc.delivery.messages import (
    Asked,
    CallRefusal,
    Change,
    ChangesNotStored,
    ChangesStored,
    Event,
    Execute,
    Executed,
    Loaded,
    MemorySettings,
    Reason,
    Replayed,
    Store,
)

KEEP_FOR_MS: Final = 1_000
SETTINGS: Final = MemorySettings(
    keep_for_ms=KEEP_FOR_MS,
    clock_skew_ms=100,
    sessions_max=3,
    calls_max=6,
    session_calls_max=5,
    in_progress_max=4,
    kept_bytes_max=120,
    outcome_bytes_max=30,
    tidy_after=2,
)
BEGUN_MS: Final = 1_700_000_000_000
TOO_LARGE: Final = 40
some: Final = st.integers(0, 1 << 16)
"""Chooses one of a list, whatever its length."""


class Caller:
    """One session: what it was answered, and what it has done with."""

    def __init__(self, number: int, now_ms: int) -> None:
        self.session = f"{now_ms:012x}7{number:019x}"
        self.sequence = 0
        self.open: set[int] = set()

    @property
    def acked_below(self) -> int:
        return min(self.open, default=self.sequence)


class CallHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = BEGUN_MS
        self.log: list[Change] = []  # durable
        self.under_way: list[Store] = []
        self.running: list[CallId] = []
        self.askers: dict[int, CallId] = {}
        self.answered: set[int] = set()
        self.sent: list[tuple[CallId, int]] = []  # requests with what they acknowledge; any may come again
        self.callers: list[Caller] = []
        self.effects: Counter[CallId] = Counter()
        self.answers: dict[CallId, bytes | CallRefusal] = {}
        self.made = 0
        self.memory = CallMemoryMachine(SETTINGS)

    @initialize()
    def begin(self) -> None:
        self.tell(Loaded(self.now_ms))

    # Callers and the network

    @precondition(lambda self: len(self.callers) < 5)
    @rule(ahead_ms=st.sampled_from([0, 0, -150, 90]))
    def a_caller_comes(self, ahead_ms: int) -> None:
        self.callers.append(Caller(len(self.callers), self.now_ms + ahead_ms))

    @precondition(lambda self: self.callers)
    @rule(which=some)
    def ask(self, which: int) -> None:
        caller = self.callers[which % len(self.callers)]
        call = CallId(caller.session, caller.sequence)
        caller.sequence += 1
        caller.open.add(call.sequence)
        self.sent.append((call, caller.acked_below))
        self.deliver(-1)

    @precondition(lambda self: self.sent)
    @rule(which=some)
    def deliver(self, which: int) -> None:
        """A request comes (again): late, early or doubled."""
        call, acked_below = self.sent[which % len(self.sent)]
        asker = len(self.askers)
        self.askers[asker] = call
        self.tell(Asked(asker, call, acked_below, self.now_ms))

    @precondition(lambda self: self.sent)
    @rule(which=some)
    def ask_again(self, which: int) -> None:
        """A retry, which acknowledges what the caller has done with by now."""
        call, _ = self.sent[which % len(self.sent)]
        caller = next(caller for caller in self.callers if caller.session == call.session)
        self.sent.append((call, min(caller.acked_below, call.sequence)))
        self.deliver(-1)

    @precondition(lambda self: any(caller.open for caller in self.callers))
    @rule(which=some)
    def give_up(self, which: int) -> None:
        """A caller will not ask for this call any more; what it sent may still be under way."""
        pairs = [(caller, number) for caller in self.callers for number in sorted(caller.open)]
        caller, number = pairs[which % len(pairs)]
        caller.open.discard(number)

    # The service

    @precondition(lambda self: self.running)
    @rule(which=some, is_large=st.booleans())
    def finish(self, which: int, is_large: bool) -> None:
        call = self.running.pop(which % len(self.running))
        self.made += 1
        outcome = b"%d" % self.made
        outcome = outcome.ljust(TOO_LARGE) if is_large else outcome
        self.tell(Executed(call, outcome, outcome, self.now_ms))

    # The store

    @precondition(lambda self: self.under_way)
    @rule(which=some)
    def store(self, which: int) -> None:
        done = self.under_way.pop(which % len(self.under_way))
        self.log += done.changes
        self.tell(ChangesStored(done.number))

    @precondition(lambda self: self.under_way)
    @rule()
    def store_all(self) -> None:
        while self.under_way:
            self.store(0)

    @precondition(lambda self: self.under_way)
    @rule(which=some, parts=some)
    def fail_to_store(self, which: int, parts: int) -> None:
        failed = self.under_way.pop(which % len(self.under_way))
        self.log += _part(failed.changes, parts)
        self.tell(ChangesNotStored(failed.number))

    @rule(parts=some)
    def crash(self, parts: int) -> None:
        """The process is killed, and another takes its place."""
        for store in self.under_way:
            self.log += _part(store.changes, parts)
            parts //= 3
        self.under_way, self.running = [], []
        self.memory = CallMemoryMachine(SETTINGS)
        for key, record in self.log:
            self.tell(Replayed(key, record))
        self.tell(Loaded(self.now_ms))

    @rule()
    def compact(self) -> None:
        latest = {key: place for place, (key, _) in enumerate(self.log)}
        self.log = [self.log[place] for place in sorted(latest.values())]

    # Time

    @rule(passed_ms=st.sampled_from([1, 90, KEEP_FOR_MS // 2, KEEP_FOR_MS]))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.tell(Tick(self.now_ms))

    @rule()
    def clock_goes_back(self) -> None:
        self.now_ms -= KEEP_FOR_MS // 3

    # What the machine says

    def tell(self, event: Event) -> None:
        for instruction in self.memory.handle(event):
            match instruction:
                case Store():
                    self.under_way.append(instruction)
                case Execute(asker, call):
                    assert self.askers[asker] == call
                    self._executed(call)
                case Answer(asker, outcome):
                    assert isinstance(outcome, bytes | CallRefusal)
                    assert asker not in self.answered, "a request was answered twice"
                    self.answered.add(asker)
                    self._answered(self.askers[asker], outcome)

    def _executed(self, call: CallId) -> None:
        self.effects[call] += 1
        assert self.effects[call] == 1, f"the effect of {call} happened twice"
        self.running.append(call)

    def _answered(self, call: CallId, outcome: bytes | CallRefusal) -> None:
        before = self.answers.get(call)
        if isinstance(outcome, bytes):
            assert self.effects[call] == 1, f"{call} was answered without an effect"
            assert before in (None, outcome), f"{call} was answered twice, differently"
            self.answers[call] = outcome
            self._acknowledge(call)
        elif outcome.reason is Reason.UNKNOWN:
            assert before is None, f"{call} was answered, and then its outcome was not known"
            assert self.effects[call] <= 1
        elif outcome.reason is Reason.NOT_KEPT:
            assert self.effects[call] == 1, f"{call} is said to have happened"
        elif outcome.reason in (Reason.FULL, Reason.NOT_STORED, Reason.FROM_THE_FUTURE):
            assert not self.effects[call], f"{call} is said not to have happened"

    def _acknowledge(self, call: CallId) -> None:
        """The answer reaches the caller; sometimes it does not, and then `give_up` is what happens next."""
        if self.made % 3:
            caller = next(caller for caller in self.callers if caller.session == call.session)
            caller.open.discard(call.sequence)

    @invariant()
    def the_bounds_hold(self) -> None:
        memory: Any = self.memory
        memory.check_invariants()
        assert len(memory.holdings.sessions) <= SETTINGS.sessions_max
        assert memory.holdings.calls <= SETTINGS.calls_max
        assert memory.holdings.in_progress <= SETTINGS.in_progress_max
        assert memory.holdings.kept_bytes <= SETTINGS.kept_bytes_max


def _part(changes: tuple[Change, ...], parts: int) -> list[Change]:
    """Any of them, as the bits of `parts` say."""
    return [change for place, change in enumerate(changes) if parts >> place & 1]
