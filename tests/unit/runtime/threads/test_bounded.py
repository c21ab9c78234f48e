"""Blocking calls with a bound: result, error, and the one that does not end."""

import threading

import pytest

from hutong.foundation.errors import Expired
from hutong.runtime.threads.bounded import call_within

LONG_MS = 60_000


def test_the_result_and_the_error_are_those_of_the_call() -> None:
    assert call_within(LONG_MS, lambda: 7, "sum") == 7
    assert call_within(LONG_MS, lambda: None, "nothing") is None
    with pytest.raises(ZeroDivisionError):
        call_within(LONG_MS, lambda: 1 // 0, "division")


def test_a_call_that_does_not_end_is_abandoned() -> None:
    is_over, seen = threading.Event(), threading.Event()

    def hang() -> None:
        is_over.wait()
        seen.set()

    with pytest.raises(Expired, match="resolver has not ended within 1 ms"):
        call_within(1, hang, "resolver")
    assert not seen.is_set()
    is_over.set()
    assert seen.wait(LONG_MS / 1_000)
