"""The blocking work of one journal that is in flight, so that its files are closed only when nobody uses them.

Strategy: a thin layer over the node's offloads that counts. Reads may have workers of their own, so that no flush
waits behind a crowd of them. `when_idle` calls back once nothing is in flight; an abandoned journal's results are
dropped, as those of a process that has died.
"""

from collections.abc import Callable
from typing import TypeVar

from hutong.runtime.offload import Offload

T = TypeVar("T")


class Jobs:
    """Two offloads, perhaps the same, that know when they are idle."""

    def __init__(self, offload: Offload, read_offload: Offload) -> None:
        self._offload = offload
        self._read_offload = read_offload
        self._in_flight = 0
        self._is_abandoned = False
        self._when_idle: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return self._in_flight

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        """As `Offload.submit`: work that writes, and what others wait for."""
        self._submit(self._offload, work, then)

    def submit_read(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        """As `Offload.submit`: a cold read."""
        self._submit(self._read_offload, work, then)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once nothing is in flight, perhaps at once."""
        self._when_idle.append(callback)
        self._tell_if_idle()

    def abandon(self) -> None:
        """Let what is in flight end unheard."""
        self._is_abandoned = True

    def _submit(self, offload: Offload, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        def ended(outcome: T | BaseException) -> None:
            self._in_flight -= 1
            try:
                if not self._is_abandoned:
                    then(outcome)
            finally:
                self._tell_if_idle()

        self._in_flight += 1
        try:
            offload.submit(work, ended)
        except BaseException:
            self._in_flight -= 1
            raise

    def _tell_if_idle(self) -> None:
        while self._when_idle and not self._in_flight:
            self._when_idle.pop(0)()
