"""When a pipeline that failed is started again, and when not."""

from itertools import pairwise

from hutong.pipelines.declared.process.restarts import (
    PAUSE_S_FIRST,
    PAUSE_S_MAX,
    UNKNOWN_RESTARTS_MAX,
    Cause,
    Restarts,
    cause_of,
)


def pauses(restarts: Restarts, cause: Cause, count: int) -> list[float | None]:
    return [restarts.after(cause, progressed=False) for _ in range(count)]


def test_failures_that_may_pass_are_followed_by_growing_pauses() -> None:
    told = pauses(Restarts(20), Cause.PASSING, 20)
    assert told[0] == PAUSE_S_FIRST
    assert told[-1] == PAUSE_S_MAX
    assert all(first <= second for first, second in pairwise(told))  # type: ignore[operator]


def test_the_limit_is_of_failures_in_a_row() -> None:
    restarts = Restarts(2)
    assert None not in pauses(restarts, Cause.PASSING, 2)
    assert restarts.after(Cause.PASSING, progressed=True) == PAUSE_S_FIRST
    assert None not in pauses(restarts, Cause.PASSING, 1)
    assert restarts.after(Cause.PASSING, progressed=False) is None


def test_what_would_fail_again_is_not_started_again() -> None:
    assert Restarts(10).after(Cause.LASTING, progressed=True) is None
    assert Restarts(0).after(Cause.PASSING, progressed=True) is None
    told = pauses(Restarts(10), Cause.UNKNOWN, UNKNOWN_RESTARTS_MAX + 1)
    assert told.index(None) == UNKNOWN_RESTARTS_MAX


def test_many_failures_overflow_nothing() -> None:
    assert pauses(Restarts(10_000), Cause.PASSING, 5_000)[-1] == PAUSE_S_MAX


def test_exit_codes_have_causes() -> None:
    assert [cause_of(code) for code in (-9, 75, 70, 65, 78)] == [
        Cause.PASSING,
        Cause.PASSING,
        Cause.UNKNOWN,
        Cause.LASTING,
        Cause.LASTING,
    ]
