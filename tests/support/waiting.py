"""Waiting for events with deadlines, for tests with a loop of their own and without.

Strategy: the step itself blocks for a moment (a poll with a timeout, a receive). Where it is a question to another
process that is answered at once, the time between two questions is given.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")
DEADLINE_S: Final = 30.0
LOOKS_AT_ONCE: Final = 2_000
LOOK_AGAIN_S: Final = 0.002


def until(
    step: Callable[[], T], *, deadline_s: float = DEADLINE_S, what: str = "the event", between_s: float = 0.0
) -> T:
    """Calls `step` until it returns something true; that is returned. A step that does not block has `between_s`.

    Raises AssertionError when the deadline passes first.
    """
    give_up = time.monotonic() + deadline_s
    while True:
        value = step()
        if value:
            return value
        if time.monotonic() > give_up:
            raise AssertionError(f"{what} did not happen within {deadline_s:g} s; last seen: {value!r}")
        if between_s:
            time.sleep(between_s)


async def turning_until(condition: Callable[[], object]) -> None:
    """Lets the loop turn until the condition holds, for tests that are on it; the test's own timeout is the bound.

    Most conditions hold after some turns. One that waits for another process is looked at less often after a while: a
    loop that always turns takes a processor away from it, and the interpreter's lock from threads of this one.
    """
    loop = asyncio.get_running_loop()
    met = loop.create_future()
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        # A test that was ended while it waited.
        if met.done():
            return
        if condition():
            met.set_result(None)
        elif looks < LOOKS_AT_ONCE:
            loop.call_soon(look)
        else:
            loop.call_later(LOOK_AGAIN_S, look)

    look()
    await met
