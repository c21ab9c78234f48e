"""Callers that try again: when, with which id, and when not. Time is moved by hand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import HutongError, LimitExceeded, StorageError, UsageError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.rpc import (
    CallFailed,
    CallOptions,
    CallTimeout,
    ConnectionLost,
    Delivery,
    NoService,
    OutcomeUnknown,
    Overloaded,
    Pace,
    new_request_id,
)
from hutong.rpc.call import Outcome
from hutong.rpc.calling.transport import Abandon, CallSite, Ended, OutgoingCall
from hutong.rpc.delivery.caller.retry import Reliability
from hutong.rpc.delivery.caller.session import IDLE_MS_MAX, CallerSession
from hutong.rpc.errors import (
    NOT_EXECUTED_CODE,
    OUTCOME_UNKNOWN_CODE,
    REQUEST_EXPIRED_CODE,
    Failure,
)

SITE = CallSite("orders", "place")
PACE = Pace(first_pause_ms=100, first_patience_ms=1_000, pause_ms_max=5_000, factor=2.0, jitter=0.5)
Result = Outcome | HutongError


class Carried:
    """One attempt, as the transport below sees it."""

    def __init__(self, call: OutgoingCall, timeout_ms: int, done: Ended) -> None:
        self.headers = dict(call.headers)
        self.timeout_ms = timeout_ms
        self.is_abandoned = False
        self.done = done

    def answer(self, outcome: Result) -> None:
        assert not self.is_abandoned
        self.done(outcome)


class Stage:
    """A transport that carries nothing, and time."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock.monotonic_ms(), 1)
        self.attempts: list[Carried] = []
        self.answered: list[Carried] = []
        self.results: list[Result] = []
        self.raises: Exception | None = None
        self.reliability = Reliability(self.clock, self.wheel, pace=PACE, chance=lambda: 0.0, random_bits=lambda _: 1)

    def begin_call(self, call: OutgoingCall, timeout_ms: int, done: Ended) -> Abandon:
        if self.raises is not None:
            raise self.raises
        carried = Carried(call, timeout_ms, done)
        self.attempts.append(carried)

        def abandon() -> None:
            carried.is_abandoned = True

        return abandon

    def call(self, timeout_ms: int = 30_000, **options: Any) -> Abandon:
        given = CallOptions(**{"delivery": Delivery.DEDUPLICATED, **options})
        return self.reliability(self, given).begin_call(OutgoingCall(SITE, {}), timeout_ms, self.results.append)

    def pass_ms(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())

    @property
    def waits(self) -> int:
        return len(self.reliability.waits)


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def test_an_answer_ends_the_call(stage: Stage) -> None:
    stage.call()
    (attempt,) = stage.attempts
    assert attempt.headers["request-id"].endswith("/0")
    assert attempt.headers["needs-memory"] == "true"
    attempt.answer(Outcome(7))
    assert stage.results == [Outcome(7)]
    assert stage.waits == 0


async def test_every_attempt_has_the_same_id_and_no_more_time_than_is_left(stage: Stage) -> None:
    stage.call(timeout_ms=10_000)
    stage.pass_ms(1_000)
    stage.pass_ms(2_000)
    ids = {attempt.headers["request-id"] for attempt in stage.attempts}
    assert (len(stage.attempts), len(ids)) == (3, 1)
    assert [attempt.timeout_ms for attempt in stage.attempts] == [10_000, 9_000, 7_000]


async def test_a_late_answer_to_an_earlier_attempt_counts(stage: Stage) -> None:
    stage.call()
    stage.pass_ms(1_000)
    first, second = stage.attempts
    first.answer(Outcome("late"))
    assert stage.results == [Outcome("late")]
    assert second.is_abandoned
    assert stage.waits == 0


@pytest.mark.parametrize(
    "failure",
    [NoService(), ConnectionLost(), CallTimeout(), Outcome(failure=Failure(NOT_EXECUTED_CODE))],
    ids=["nobody", "lost", "timeout", "not executed"],
)
async def test_an_attempt_without_an_answer_is_followed_by_another_after_a_pause(stage: Stage, failure: Result) -> None:
    stage.call()
    stage.attempts[0].answer(failure)
    assert stage.results == []
    stage.pass_ms(99)
    assert len(stage.attempts) == 1
    stage.pass_ms(1)
    stage.attempts[1].answer(failure)
    stage.pass_ms(200)
    stage.attempts[2].answer(Outcome(1))
    assert stage.results == [Outcome(1)]


@pytest.mark.parametrize(
    "answer",
    [
        Outcome(failure=Failure(17, "out of stock")),
        Outcome(failure=Failure(OUTCOME_UNKNOWN_CODE)),
        OutcomeUnknown(),
        UsageError("the body cannot be sent"),
    ],
    ids=["service error", "unknown", "unknown as error", "usage"],
)
async def test_what_the_service_answers_is_never_tried_again(stage: Stage, answer: Result) -> None:
    stage.call()
    stage.attempts[0].answer(answer)
    stage.pass_ms(20_000)
    assert stage.results == [answer]
    assert len(stage.attempts) == 1


async def test_retries_are_bounded(stage: Stage) -> None:
    stage.call(retries=2)
    for _ in range(3):
        stage.attempts[-1].answer(NoService())
        stage.pass_ms(5_000)
    assert len(stage.attempts) == 3
    assert [type(result) for result in stage.results] == [NoService]


async def test_nothing_happened_is_not_said_when_an_earlier_attempt_is_in_doubt(stage: Stage) -> None:
    stage.call(retries=1)
    stage.attempts[0].answer(ConnectionLost())
    stage.pass_ms(100)
    stage.attempts[1].answer(NoService())
    assert [type(result) for result in stage.results] == [ConnectionLost]


EXPIRED = Outcome(failure=Failure(REQUEST_EXPIRED_CODE))


async def test_a_service_that_has_forgotten_the_session_gets_another_with_the_next_call(stage: Stage) -> None:
    names = iter("ab")
    session = stage.reliability.session("orders")
    session._make_session = lambda: f"1-{next(names)}"
    stage.call()
    stage.call()
    stage.attempts[0].answer(EXPIRED)
    stage.call()
    sessions = [attempt.headers["request-id"].rpartition("/")[0] for attempt in stage.attempts]
    assert sessions == ["1-a", "1-a", "1-b"]
    assert stage.results == [EXPIRED]


async def test_what_a_service_has_forgotten_may_have_happened_by_an_earlier_attempt(stage: Stage) -> None:
    stage.call(retries=1)
    stage.attempts[0].answer(ConnectionLost())
    stage.pass_ms(100)
    stage.attempts[1].answer(EXPIRED)
    assert [type(result) for result in stage.results] == [ConnectionLost]


async def test_what_a_service_has_forgotten_may_have_happened_by_an_attempt_that_is_still_silent(stage: Stage) -> None:
    stage.call(retries=1)
    while len(stage.attempts) < 2:
        stage.pass_ms(1_000)
    stage.attempts[1].answer(EXPIRED)
    assert [type(result) for result in stage.results] == [OutcomeUnknown]


REFUSALS = [NoService("nobody"), Overloaded("calls_max"), Outcome(failure=Failure(NOT_EXECUTED_CODE))]


def answer_until_the_end(stage: Stage, answer: Result) -> None:
    while not stage.results:
        if len(stage.answered) < len(stage.attempts):
            attempt = stage.attempts[len(stage.answered)]
            stage.answered.append(attempt)
            attempt.answer(answer)
        stage.pass_ms(50)


@pytest.mark.parametrize("refusal", REFUSALS, ids=["nobody", "overloaded", "not executed"])
async def test_a_call_whose_attempts_were_all_refused_says_that_nothing_happened(stage: Stage, refusal: Result) -> None:
    stage.call(timeout_ms=500, retries=1_000, delivery=Delivery.AT_LEAST_ONCE)
    answer_until_the_end(stage, refusal)
    assert len(stage.attempts) > 1
    assert stage.results == [refusal]


@pytest.mark.parametrize("doubtful", [0, 1, 2])
@pytest.mark.parametrize("doubt", [CallTimeout("silent"), ConnectionLost("lost")], ids=["timeout", "lost"])
async def test_one_attempt_in_doubt_decides_whenever_it_was(stage: Stage, doubt: Result, doubtful: int) -> None:
    stage.call(timeout_ms=1_000, retries=1_000)
    for number in range(3):
        stage.answered.append(stage.attempts[number])
        stage.attempts[number].answer(doubt if number == doubtful else NoService())
        stage.pass_ms(100 << number)
    answer_until_the_end(stage, NoService())
    assert stage.results == [doubt]


async def test_an_attempt_that_is_still_silent_at_the_end_leaves_the_outcome_unknown(stage: Stage) -> None:
    stage.call(timeout_ms=2_000, retries=1_000)
    first = stage.attempts[0]
    stage.answered.append(first)
    stage.pass_ms(1_000)
    while len(stage.answered) < len(stage.attempts):
        stage.answered.append(stage.attempts[len(stage.answered)])
        stage.answered[-1].answer(NoService())
        stage.pass_ms(2_000)
    assert stage.results == []
    first.answer(CallTimeout("silent"))  # as transports say at the end of an attempt's time
    stage.pass_ms(10)
    assert [str(result) for result in stage.results] == ["silent"]


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (LimitExceeded("replies_max", 1), Overloaded),
        (StorageError("closed"), StorageError),
        (TypeError("x"), UsageError),
    ],
)
async def test_an_attempt_that_cannot_begin_does_not_leave_the_call_open(
    stage: Stage, raised: Exception, told: type[HutongError]
) -> None:
    stage.call(retries=1)
    stage.raises = raised
    stage.attempts[0].answer(NoService())
    stage.pass_ms(100)
    assert [type(result) for result in stage.results] == [told]
    assert stage.waits == 0


async def test_a_call_for_whose_pause_there_is_no_room_ends_with_its_first_attempt(stage: Stage) -> None:
    stage.reliability.waits = WaitTable("rpc_pauses", stage.wheel, 1)
    stage.call()
    stage.call()
    stage.attempts[1].answer(NoService())
    assert [type(result) for result in stage.results] == [NoService]


async def test_a_call_that_loses_its_place_among_the_pauses_says_which_bound_it_was(stage: Stage) -> None:
    stage.call()
    stage.reliability.waits = WaitTable("rpc_pauses", stage.wheel, 0)
    stage.attempts[0].answer(NoService())
    assert [str(result) for result in stage.results] == [str(LimitExceeded("rpc_pauses", 0))]


async def test_the_time_of_the_call_bounds_its_attempts(stage: Stage) -> None:
    stage.call(timeout_ms=500, retries=1_000)
    while not stage.results:
        if not stage.attempts[-1].is_abandoned and len(stage.attempts) < 50:
            stage.attempts[-1].done(NoService())
        stage.pass_ms(50)
    assert len(stage.attempts) <= 4
    assert stage.clock.monotonic_ms() <= 600
    assert stage.waits == 0


async def test_without_retries_there_is_one_attempt_with_the_applications_id(stage: Stage) -> None:
    own = new_request_id()
    stage.call(delivery=Delivery.AT_MOST_ONCE, request_id=own)
    stage.pass_ms(20_000)
    (attempt,) = stage.attempts
    assert attempt.headers == {"request-id": own}
    attempt.answer(CallTimeout())
    assert [type(result) for result in stage.results] == [CallTimeout]


async def test_an_applications_id_acknowledges_nothing(stage: Stage) -> None:
    stage.call()
    stage.attempts[0].answer(Outcome(1))
    own = new_request_id()
    stage.call(request_id=own)
    assert stage.attempts[1].headers == {"request-id": own, "needs-memory": "true"}


async def test_a_request_id_that_is_none_is_refused(stage: Stage) -> None:
    with pytest.raises(UsageError, match="new_request_id"):
        stage.call(request_id="order 17")


async def test_at_least_once_asks_for_no_memory(stage: Stage) -> None:
    stage.call(delivery=Delivery.AT_LEAST_ONCE)
    assert stage.attempts[0].headers.keys() == {"request-id"}


async def test_a_call_acknowledges_those_before_it_that_have_ended(stage: Stage) -> None:
    for _ in range(3):
        stage.call()
    stage.attempts[1].answer(Outcome(1))
    stage.call()
    assert "acked-below" not in stage.attempts[3].headers
    stage.attempts[0].answer(Outcome(1))
    stage.call()
    assert stage.attempts[4].headers["acked-below"] == "2"
    stage.pass_ms(1_000)
    again = {attempt.headers["request-id"]: attempt.headers.get("acked-below") for attempt in stage.attempts[5:]}
    assert set(again.values()) == {"2"}, "attempts that follow acknowledge what has ended since"


async def test_who_gives_up_is_told_nothing_and_nothing_waits(stage: Stage) -> None:
    abandon = stage.call()
    abandon()
    abandon()
    assert stage.attempts[0].is_abandoned
    assert stage.waits == 0
    stage.call()
    assert stage.attempts[1].headers["acked-below"] == "1", "it is not asked again"


@pytest.mark.parametrize("first", [NoService("none is bound"), ConnectionLost("the connection ended")])
async def test_a_call_between_two_attempts_ends_when_the_caller_is_closed(stage: Stage, first: CallFailed) -> None:
    stage.call()
    stage.attempts[0].answer(first)
    closed = CallFailed("the client is closed")
    stage.reliability.close(closed)
    assert stage.results == [first if isinstance(first, ConnectionLost) else closed], "a doubt stays one"
    assert stage.waits == 0


async def test_a_call_under_way_ends_with_its_attempt_when_the_caller_is_closed(stage: Stage) -> None:
    stage.reliability.close(CallFailed("the client is closed"))
    stage.call()
    assert stage.results == [], "not before the call has begun"
    refusal = NoService("none is bound")
    stage.attempts[0].answer(refusal)
    assert stage.results == [refusal]
    assert (len(stage.attempts), stage.waits) == (1, 0)


def test_a_session_that_was_idle_is_left() -> None:
    names = iter("abc")
    session = CallerSession(lambda: next(names))
    first = session.next_call_id(0)
    assert session.next_call_id(IDLE_MS_MAX).session == "a"
    later = session.next_call_id(IDLE_MS_MAX * 2 + 1)
    assert (later.session, later.sequence) == ("b", 0)
    assert session.acked_below(first) == 0, "it keeps its id, and acknowledges nothing any more"
    session.end(first)
    assert session.acked_below(later) == 0
    assert not session.is_idle


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.integers(1, 1_000),
    st.floats(0, 1, exclude_max=True),
    st.floats(1, 100),
    st.floats(0, 1),
)
def test_pauses_are_bounded(
    first_ms: int, more_ms: int, attempts: int, chance: float, factor: float, jitter: float
) -> None:
    pace = Pace(first_ms, first_ms, first_ms + more_ms, factor, jitter)
    for is_silent in (True, False):
        assert 1 <= pace.pause_ms(attempts, chance, is_silent=is_silent) <= first_ms + more_ms


@pytest.mark.parametrize(
    "wrong", [{"first_pause_ms": 0}, {"first_patience_ms": 9_999}, {"factor": 0.5}, {"jitter": 1.5}]
)
def test_a_pace_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Pace(**wrong)
