"""Reads the files of the APIs that nobody has asked for yet, one at a time, while the node serves.

Strategy: a start imports only what it needs, so that clients are accepted early; the rest follows by a timer, a few
milliseconds of work each. So no client waits for a file later, and a node that has run for some seconds is not touched
by an upgrade of the package under it.

Knows nothing of what a handler does.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.timers import Timer, TimerWheel

INTERVAL_MS: Final = 50


class Preload:
    """Looks up each entry of a mapping that loads what is looked up, from `start` on, until `stop` or the last one."""

    def __init__(self, loads: Mapping[int, object], clock: Clock, wheel: TimerWheel) -> None:
        self._loads = loads
        self._clock = clock
        self._wheel = wheel
        self._keys: Iterator[int] = iter(())
        self._timer: Timer | None = None

    def start(self) -> None:
        self._keys = iter(tuple(self._loads))
        self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = self._wheel.add(self._clock.monotonic_ms() + INTERVAL_MS, self._load_next)

    def _load_next(self) -> None:
        key = next(self._keys, None)
        self._timer = None
        if key is not None:
            self._loads[key]
            self._arm()
