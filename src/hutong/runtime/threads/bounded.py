"""Blocking calls with a bound, where the call itself knows none: look-ups of names above all.

Strategy: the call runs on a daemon thread of its own. One that exceeds its bound is abandoned: the thread ends with the
call, and a process that stops does not wait for it. getaddrinfo(3) took 20 s where no DNS server answered.
"""

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from hutong.foundation.errors import Expired

T = TypeVar("T")


def call_within(timeout_ms: int, work: Callable[[], T], name: str) -> T:
    """The result of `work`, or what it raised. Blocks. Raises Expired after `timeout_ms`; `name` is the thread's."""
    outcomes: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def perform() -> None:
        try:
            outcomes.put((work(), None))
        except BaseException as error:  # noqa: BLE001  # a supervisor: the caller gets each error
            outcomes.put((None, error))

    threading.Thread(target=perform, name=name, daemon=True).start()
    try:
        result, error = outcomes.get(timeout=timeout_ms / 1_000)
    except queue.Empty:
        raise Expired(f"{name} has not ended within {timeout_ms} ms") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]  # None is the result, or there is an error
