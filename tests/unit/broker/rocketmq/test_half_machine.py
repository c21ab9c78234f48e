"""The table of half messages, its rules and its bounds; decisions as bytes; the plan of trimming."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hutong.broker.rocketmq.halves import machine
from hutong.broker.rocketmq.halves.decisions import Decision, HalfOutcome, decode_decision, encode_decision
from hutong.broker.rocketmq.halves.machine import CheckRules, Claim, GiveUp, Half, HalfCheck, HalfMachine
from hutong.broker.rocketmq.halves.trimming import MARKS_MAX, TrimPlan
from hutong.foundation.errors import LimitExceeded, ProtocolError

RULES = CheckRules(6_000, 30_000, 3)
HALF = Half("p", "User:a", "id", None)
SENDER = 5
CLAIM = Claim("p", "User:a", ("id", "id"), SENDER, is_producer=False)


def with_one(half: Half = HALF, now_ms: int = 0) -> HalfMachine:
    made = HalfMachine(RULES)
    made.expect()
    made.stored(0, half, SENDER, now_ms)
    made.check_invariants()
    return made


def test_it_is_asked_about_after_a_while_then_at_intervals_then_given_up() -> None:
    halves = with_one()
    assert halves.due_ms == 6_000
    assert not [*halves.due(5_999)]
    for number, at_ms in enumerate((6_000, 36_000, 66_000)):
        assert [*halves.due(at_ms)] == [HalfCheck(0, HALF, number + 1)]
    assert [*halves.due(96_000)] == [GiveUp(0)]
    assert halves.due_ms is None
    halves.decided(0)
    assert len(halves) == 0
    halves.check_invariants()


def test_the_message_may_say_when_it_is_asked_about() -> None:
    assert with_one(HALF._replace(immunity_ms=100)).due_ms == 100
    found = HalfMachine(RULES)
    # Of an earlier life: 40 of its 100 s have passed. The other one is due, and its producer needs time to come back.
    found.found(0, HALF._replace(immunity_ms=100_000), 0, 40_000, 1_000)
    assert found.due_ms == 61_000
    found.found(1, HALF, 2, 10**9, 1_000)
    assert found.due_ms == 7_000
    assert [*found.due(7_000)] == [HalfCheck(1, HALF, 3)]
    assert [*found.due(37_000)] == [GiveUp(1)]


@pytest.mark.parametrize(
    ("changed", "may_end"),
    [
        ({}, True),
        ({"connection": 6}, False),
        ({"connection": 6, "is_producer": True}, True),
        ({"user": "User:b", "is_producer": True}, False),
        ({"group": "q", "is_producer": True}, False),
        ({"keys": ("", "")}, False),
        ({"keys": ("", "id")}, True),
    ],
)
def test_who_may_end_it(changed: dict[str, Any], may_end: bool) -> None:
    halves = with_one()
    assert halves.end(0, CLAIM._replace(**changed)) is may_end
    assert halves.end(0, CLAIM) is not may_end, "once"
    halves.check_invariants()


def test_after_a_restart_the_connection_proves_nothing() -> None:
    halves = HalfMachine(RULES)
    halves.found(0, HALF, 0, 0, 0)
    assert not halves.end(0, CLAIM)
    assert not halves.end(0, CLAIM._replace(connection=0))
    assert halves.end(0, CLAIM._replace(is_producer=True))


def test_a_decision_that_cannot_be_stored_is_asked_for_again() -> None:
    halves = with_one()
    assert halves.end(0, CLAIM)
    assert halves.due_ms is None
    halves.failed(0, 1_000)
    assert halves.due_ms == 31_000
    assert halves.end(0, CLAIM)
    halves.decided(0)
    assert not halves.end(0, CLAIM)
    assert halves.start_offset == 1


def test_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "HALVES_MAX", 2)
    halves = HalfMachine(RULES)
    halves.expect()
    halves.expect()
    with pytest.raises(LimitExceeded, match="HALVES_MAX"):
        halves.expect()
    halves.not_stored()
    halves.expect()
    monkeypatch.setattr(machine, "HALVES_MAX", 10)
    monkeypatch.setattr(machine, "SPAN_MAX", 5)
    halves.stored(0, HALF, SENDER, 0)
    halves.passed(4)
    with pytest.raises(LimitExceeded, match="SPAN_MAX"):
        halves.expect()
    assert halves.end(0, CLAIM)
    halves.decided(0)
    halves.expect()


def test_few_checks_are_made_together() -> None:
    halves = HalfMachine(RULES)
    for offset in range(machine.CHECKS_TOGETHER_MAX + 1):
        halves.expect()
        halves.stored(offset, HALF, SENDER, 0)
    assert len([*halves.due(6_000)]) == machine.CHECKS_TOGETHER_MAX
    assert halves.due_ms == 6_000
    assert len([*halves.due(6_000)]) == 1


class Halves(RuleBasedStateMachine):
    """Random histories against a table of the obvious kind."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = HalfMachine(RULES)
        self.end = 0
        self.now_ms = 0
        self.waiting: set[int] = set()
        self.deciding: set[int] = set()

    @rule(immunity_ms=st.none() | st.integers(0, 10**9), count=st.integers(1, 50))
    def store(self, immunity_ms: int | None, count: int) -> None:
        for _ in range(count):
            self.machine.expect()
            self.machine.stored(self.end, HALF._replace(immunity_ms=immunity_ms), SENDER, self.now_ms)
            self.waiting.add(self.end)
            self.end += 1

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def decide(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.waiting)))
        assert self.machine.end(offset, CLAIM)
        self.waiting.remove(offset)
        self.deciding.add(offset)

    @precondition(lambda self: self.deciding)
    @rule(data=st.data(), is_stored=st.booleans())
    def settle(self, data: st.DataObject, is_stored: bool) -> None:
        offset = data.draw(st.sampled_from(sorted(self.deciding)))
        self.deciding.remove(offset)
        if is_stored:
            self.machine.decided(offset)
        else:
            self.machine.failed(offset, self.now_ms)
            self.waiting.add(offset)

    @rule(passed_ms=st.integers(0, 100_000))
    def ask(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        for instruction in self.machine.due(self.now_ms):
            assert instruction.offset in self.waiting
            if isinstance(instruction, GiveUp):
                self.waiting.remove(instruction.offset)
                self.deciding.add(instruction.offset)

    @invariant()
    def holds(self) -> None:
        self.machine.check_invariants()
        assert len(self.machine) == len(self.waiting) + len(self.deciding)
        assert self.machine.start_offset == min(self.waiting | self.deciding, default=self.end)


TestHalves = Halves.TestCase
TestHalves.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


@given(st.builds(Decision, st.sampled_from(HalfOutcome), st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1)))
def test_a_decision_comes_back_as_it_was(decision: Decision) -> None:
    assert decode_decision(encode_decision(decision)) == decision


@given(st.binary(max_size=40) | st.binary(min_size=12, max_size=12))
def test_other_bytes_are_no_decision_or_a_sound_one(data: bytes) -> None:
    try:
        decision = decode_decision(data)
    except ProtocolError:
        return
    assert encode_decision(decision) == data


def test_decisions_go_once_no_half_message_of_theirs_is_left() -> None:
    plan = TrimPlan()
    plan.note(10, 100)
    plan.note(10, 150)
    plan.note(20, 200)
    assert plan.decisions_start(99) is None
    assert plan.decisions_start(100) == 10
    assert plan.decisions_start(199) is None
    assert plan.decisions_start(500) == 20
    assert plan.decisions_start(500) is None


def test_the_plan_stays_small_while_one_half_message_holds_up_all() -> None:
    plan = TrimPlan()
    for number in range(1, 10_000):
        plan.note(number, number)
        assert len(plan._marks) <= MARKS_MAX
    assert plan.decisions_start(9_999) == 9_999
