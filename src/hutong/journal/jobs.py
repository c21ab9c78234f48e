"""The blocking work of one journal that is in flight, so that its files are closed only when nobody uses them.

Strategy: a thin layer over the node's offload that counts. `when_idle` calls back once nothing is in flight; an
abandoned journal's results are dropped, as those of a process that has died.
"""

from collections.abc import Callable
from typing import TypeVar

from hutong.runtime.offload import Offload

T = TypeVar("T")


class Jobs:
    """An offload that knows when it is idle."""

    def __init__(self, offload: Offload) -> None:
        self._offload = offload
        self._in_flight = 0
        self._is_abandoned = False
        self._when_idle: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return self._in_flight

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        """As `Offload.submit`."""

        def ended(outcome: T | BaseException) -> None:
            self._in_flight -= 1
            try:
                if not self._is_abandoned:
                    then(outcome)
            finally:
                self._tell_if_idle()

        self._in_flight += 1
        try:
            self._offload.submit(work, ended)
        except BaseException:
            self._in_flight -= 1
            raise

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once nothing is in flight, perhaps at once."""
        self._when_idle.append(callback)
        self._tell_if_idle()

    def abandon(self) -> None:
        """Let what is in flight end unheard."""
        self._is_abandoned = True

    def _tell_if_idle(self) -> None:
        while self._when_idle and not self._in_flight:
            self._when_idle.pop(0)()
