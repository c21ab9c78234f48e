"""Waiting for events with deadlines, for tests that have no loop of their own.

Strategy: the step itself blocks for a moment (a poll with a timeout, a receive), so nothing here sleeps.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")
DEADLINE_S: Final = 30.0


def until(step: Callable[[], T], *, deadline_s: float = DEADLINE_S, what: str = "the event") -> T:
    """Calls `step`, which blocks for a short while, until it returns something true; that is returned.

    Raises AssertionError when the deadline passes first.
    """
    give_up = time.monotonic() + deadline_s
    while True:
        value = step()
        if value:
            return value
        if time.monotonic() > give_up:
            raise AssertionError(f"{what} did not happen within {deadline_s:g} s; last seen: {value!r}")
